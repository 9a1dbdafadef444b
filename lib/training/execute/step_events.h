// SPDX-License-Identifier: Apache-2.0
// The events that a pool's schedule needs, found before it runs. A copy out begins after the last
// task that wrote the data, or the copy that brought it, so events are recorded only after these.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_STEP_EVENTS_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_STEP_EVENTS_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::execute {

inline constexpr std::size_t kNoEvent = std::numeric_limits<std::size_t>::max();

// Numbers of events by step, or kNoEvent: the event that is recorded after the step, and the event
// that a kOffload waits for.
struct StepEvents {
  std::vector<std::size_t> recorded;
  std::vector<std::size_t> awaited;
  std::size_t count = 0;
};

// Returns the events of a valid schedule. O(steps + uses).
StepEvents PlaceEvents(const TaskGraph& graph, const Schedule& schedule);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_STEP_EVENTS_H_
