// SPDX-License-Identifier: Apache-2.0
// Turns a trace into the steps of the searches.
#include "lib/trace/sizing/steps.h"

#include "lib/base/arithmetic.h"

namespace tidepool::sizing {

std::vector<Step> ToSteps(const Trace& trace, std::int64_t alignment) {
  std::vector<Step> steps;
  std::vector<std::uint32_t> slots(trace.allocations.size());
  std::vector<std::uint32_t> spare;
  std::uint32_t used = 0;
  for (const TraceEvent& event : trace.events) {
    if (!event.TouchesMemory()) continue;
    const TraceAllocation& allocation = trace.allocations[event.index];
    if (event.kind == TraceEvent::Kind::kFree) {
      spare.push_back(slots[event.index]);
      steps.push_back({0, slots[event.index], allocation.hint});
      continue;
    }
    if (spare.empty()) spare.push_back(used++);
    slots[event.index] = spare.back();
    spare.pop_back();
    steps.push_back({AlignUp(allocation.bytes, alignment), slots[event.index], allocation.hint});
  }
  return steps;
}

}  // namespace tidepool::sizing
