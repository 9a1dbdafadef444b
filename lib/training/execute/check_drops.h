// SPDX-License-Identifier: Apache-2.0
// Refuses schedules that a live pool cannot carry out.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_CHECK_DROPS_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_CHECK_DROPS_H_

#include "absl/status/status.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::execute {

// Returns InvalidArgument unless each datum that is sent is dropped next, and each drop follows an
// offload. An offloader gives no address of data that is leaving, and keeps no copy on the host of
// data that came back. The schedule is valid. O(steps + uses).
absl::Status CheckDropsAreSent(const TaskGraph& graph, const Schedule& schedule);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_CHECK_DROPS_H_
