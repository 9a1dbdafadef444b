// SPDX-License-Identifier: Apache-2.0
// CheckTimes: whether tasks and copies may run at given times. It shares no code with the makers of
// schedules, with LowerSchedule or with the simulator.
#ifndef TIDEPOOL_TESTS_SUPPORT_CHECK_TIMES_CHECK_TIMES_H_
#define TIDEPOOL_TESTS_SUPPORT_CHECK_TIMES_CHECK_TIMES_H_

#include <limits>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

struct TimeLimits {
  double most_seconds = std::numeric_limits<double>::infinity();  // for the whole iteration
  // Times that differ by less are equal. Where the latest end is after one second, this is a share
  // of it: sums of doubles are no more exact than that.
  double tolerance_seconds = 1e-9;
};

// Returns OK when the steps kRun, kOffload and kPrefetch of a valid schedule with fixed addresses
// or pages (ValidateSchedule), with all repetitions, may run at `times`, in their order:
// - Each takes the time of the graph, the link, the compressor or the host's rates. Copies of
// several devices on a link divide it as the link says.
// - Streams run one at a time, in the order of steps. After kSynchronize nothing starts before the
// end of everything before.
// - Data is there before it is read, and all its users have ended before it is written.
// - Memory in use never exceeds that of the device. Memory is in use from the start of its first
// user to the end of its last one before it is given back. No address is in use twice.
// - Nothing ends after `most_seconds`.
// Otherwise InvalidArgument, ResourceExhausted for memory, or DeadlineExceeded for the last rule.
// The text names the step, its time and the earliest time that it could have. Granules need not be
// taken in the order in which they were given back. Thread-safe. O(n log n) in the operations, for
// sorting times and addresses; O(n) otherwise.
absl::Status CheckTimes(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                        const Machine& machine, absl::Span<const OperationTimes> times,
                        const TimeLimits& limits = {});

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_SUPPORT_CHECK_TIMES_CHECK_TIMES_H_
