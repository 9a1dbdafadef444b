// SPDX-License-Identifier: Apache-2.0
// The operations of a program with rounds as loops: one operation for each step, for all passes.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_LOOPED_OPERATIONS_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_LOOPED_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"

namespace tidepool::emit {

struct LoopedOperation {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t operation = kNone;        // the first one of the program; kNone: the step has none
  std::vector<std::uint32_t> waits = {};  // events
  std::uint32_t event = kNone;            // that it records
};

struct LoopedOperations {
  std::vector<LoopedOperation> steps;  // by step of the schedule
  std::uint32_t events = 0;
};

// Gives each operation that another one waits for an event. A pass waits for an event as it was
// recorded last: by an earlier operation of the same pass, or by a later one of the pass before. So
// the waits of all passes together make each pass wait for its own, and perhaps for more; an event
// that was never recorded lets the stream go on. O(operations + waits).
LoopedOperations LoopOperations(const Schedule& schedule, const Program& program);

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_LOOPED_OPERATIONS_H_
