// How much memory does my job need? Reads a recorded trace and prints the smallest pool that serves
// it.
//   size_a_trace TRACE
#include <cstdio>

#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: size_a_trace TRACE\n");
    return 1;
  }
  const absl::StatusOr<tidepool::Trace> trace = tidepool::ReadTrace(argv[1]);
  if (!trace.ok()) {
    std::fprintf(stderr, "%s\n", std::string(trace.status().message()).c_str());
    return 1;
  }
  const std::int64_t alignment = trace->default_alignment;
  const auto load = tidepool::MeasureLoad(*trace, alignment);
  auto policy = tidepool::MakePlacementPolicy("best-fit");
  if (!load.ok() || !policy.ok()) return 1;
  const auto pool = tidepool::MinimumPool(*trace, **policy, {.alignment = alignment});
  if (!pool.ok()) return 1;
  std::printf("%lld bytes are live at the peak, best-fit needs a pool of %lld\n",
              static_cast<long long>(load->peak_live_bytes),
              static_cast<long long>(pool->pool_bytes));
  return 0;
}
