// SPDX-License-Identifier: Apache-2.0
#include "lib/training/emit/looped_operations.h"

#include <algorithm>

namespace tidepool::emit {

LoopedOperations LoopOperations(const Schedule& schedule, const Program& program) {
  LoopedOperations looped;
  looped.steps.resize(schedule.steps.size());
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const ProgramOperation& operation = program.operations[i];
    LoopedOperation& step = looped.steps[operation.step];
    if (step.operation == LoopedOperation::kNone) step.operation = static_cast<std::uint32_t>(i);
    for (std::uint32_t wait = 0; wait < operation.waits; ++wait) {
      const std::uint32_t awaited = program.waits[operation.first_wait + wait].operation;
      LoopedOperation& other = looped.steps[program.operations[awaited].step];
      if (other.event == LoopedOperation::kNone) other.event = looped.events++;
      if (std::ranges::find(step.waits, other.event) == step.waits.end()) {
        step.waits.push_back(other.event);
      }
    }
  }
  return looped;
}

}  // namespace tidepool::emit
