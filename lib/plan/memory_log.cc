// SPDX-License-Identifier: Apache-2.0
// Turns a memory log into a plan problem.
#include "lib/plan/memory_log.h"

#include "absl/strings/str_cat.h"
#include "lib/plan/reusable_from.h"

namespace tidepool::plan {

absl::StatusOr<PlanProblem> ProblemOf(const MemoryLog& log, std::int64_t alignment) {
  constexpr std::int64_t kLargestAlignment = std::int64_t{1} << 30;
  if (alignment < 1 || alignment > kLargestAlignment || (alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alignment ", alignment, ", expected a power of two up to ", kLargestAlignment));
  }
  const absl::StatusOr<std::vector<std::int64_t>> reusable = ReusableFrom(log);
  if (!reusable.ok()) return reusable.status();
  PlanProblem problem;
  problem.buffers.resize(log.bytes.size());
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const MemoryEvent& event = log.events[i];
    if (event.kind != MemoryEvent::Kind::kAllocate) continue;
    problem.buffers[event.index] = {.lower = static_cast<std::int64_t>(i),
                                    .upper = (*reusable)[event.index],
                                    .bytes = (log.bytes[event.index] + alignment - 1) & -alignment,
                                    .alignment = alignment};
  }
  return problem;
}

}  // namespace tidepool::plan
