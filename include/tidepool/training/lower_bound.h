// SPDX-License-Identifier: Apache-2.0
// LowerBoundSeconds: a time that schedules of a given memory cannot beat.
#ifndef TIDEPOOL_TRAINING_LOWER_BOUND_H_
#define TIDEPOOL_TRAINING_LOWER_BOUND_H_

#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

// Returns seconds that no valid schedule on `machine` beats if it first runs the same tasks on the
// same devices in the same order as `schedule`. It may move other data, at other times, and take
// other algorithms. If `schedule` runs tasks again, or compresses copies, others may too, and all
// copies may have the least density of its copies; the bound is lower then. Copies of one round are
// counted, and the tasks of all rounds.
//
// While task k runs, D_k bytes of live data and workspace exceed the memory of its device. They
// have left before, and come back later if they are used later. Data cannot leave before its last
// change, and comes back before its next use. So between the end of any task and the start of any
// later one, the link carries the part of each D_k for which no other time is left. The bound is
// the longest path through these windows and the tasks. It is never below that of chain.h,
// ChainOperationBound: its windows begin or end with the iteration. Data that begins on the host
// arrives before its first use and needs no copy out, an input that begins on the device needs
// memory from its first use on, and data that ends there leaves after its last change. A link with
// one transfer at a time carries the sum of both directions. Where the device has several compute
// streams, the bound is the ideal time of these streams alone, and the time of the longest path of
// tasks that need each other's data. The schedule is valid for `graphs`, with one for each batch of
// its rounds, and the machine is valid. Thread-safe. O(steps + uses + tasks x min(tasks, 4096)).
TIDEPOOL_EXPORT double LowerBoundSeconds(absl::Span<const TaskGraph> graphs,
                                         const Schedule& schedule, const Machine& machine);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_LOWER_BOUND_H_
