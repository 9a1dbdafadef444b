// SPDX-License-Identifier: Apache-2.0
// How much memory does my job need? Reads a recorded trace and prints the smallest pools.
//   size_a_trace TRACE
#include "check.h"
#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"
#include "tidepool/trace/trace_files.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: size_a_trace TRACE\n");
    return 1;
  }
  // [size-a-trace]
  const tidepool::Trace trace = Check(tidepool::ReadTrace(argv[1]));
  const std::int64_t alignment = trace.default_alignment;
  const tidepool::TraceLoad load = Check(tidepool::MeasureLoad(trace, alignment));
  auto policy = Check(tidepool::MakePlacementPolicy("best-fit"));
  const auto pool = Check(tidepool::MinimumPool(trace, *policy, {.alignment = alignment}));
  // pool.pool_bytes: found by the papers' search; pool.exact_pool_bytes: the smallest that serves
  // [/size-a-trace]
  std::printf("%lld bytes are live at the peak, best-fit needs a pool of %lld\n",
              static_cast<long long>(load.peak_live_bytes),
              static_cast<long long>(pool.pool_bytes));
  return 0;
}
