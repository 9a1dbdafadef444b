// From traces to problems.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/sizing/plan/stream_order.h"
#include "tidepool/plan.h"

namespace tidepool {

absl::StatusOr<PlanProblem> ToPlanProblem(const Trace& trace, std::int64_t alignment) {
  constexpr std::int64_t kLargestAlignment = std::int64_t{1} << 30;
  if (alignment < 1 || alignment > kLargestAlignment || (alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alignment ", alignment, ", expected a power of two up to ", kLargestAlignment));
  }
  const absl::StatusOr<std::vector<std::int64_t>> reusable = sizing::ReusableFrom(trace);
  if (!reusable.ok()) return reusable.status();
  const bool has_times = trace.original_format == TraceFormat::kLifetimeCsv;
  const auto time = [&](std::int64_t event) {
    if (!has_times) return event;
    if (event < static_cast<std::int64_t>(trace.events.size())) {
      return trace.events[static_cast<std::size_t>(event)].time;
    }
    return trace.events.back().time + 1;
  };
  PlanProblem problem;
  problem.buffers.resize(trace.allocations.size());
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind != TraceEvent::Kind::kAllocate) continue;
    const std::int64_t bytes = trace.allocations[event.index].bytes;
    problem.buffers[event.index] = {.lower = time(static_cast<std::int64_t>(i)),
                                    .upper = time((*reusable)[event.index]),
                                    .bytes = (bytes + alignment - 1) & -alignment,
                                    .alignment = alignment};
  }
  return problem;
}

}  // namespace tidepool
