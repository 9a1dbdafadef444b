// SPDX-License-Identifier: Apache-2.0
// The fewest events for the waits between operations of streams. A wait refers to the moment that
// an event has recorded when the wait is queued, so an event serves again after its last wait.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_EVENT_PLAN_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_EVENT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidepool::execute {

// Operations are queued one after another. Each waits for earlier ones, then runs, then records its
// event if any later operation waits for it.
struct WaitingOperation {
  std::size_t device = 0;            // of the operation's stream, and so of its event
  std::vector<std::uint32_t> waits;  // earlier operations
};

struct EventPlan {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::vector<std::uint32_t> recorded;  // by operation: its event, or kNone
  std::vector<std::size_t> devices;     // by event: the device that it belongs to
};

// Returns an event for each operation that another one waits for. O(operations + waits).
EventPlan PlanEvents(const std::vector<WaitingOperation>& operations);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_EVENT_PLAN_H_
