// SPDX-License-Identifier: Apache-2.0
// Calls the function for a step's kind: the one switch over the kinds of steps of a pool.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_VISIT_STEP_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_VISIT_STEP_H_

#include "absl/status/status.h"
#include "tidepool/schedule/schedule.h"

namespace tidepool::schedule {

// Returns the status of the visitor's function, which gets the step. The kind must be valid, and
// one of a pool's schedule.
template <typename Visitor>
absl::Status VisitStep(const ScheduleStep& step, Visitor& visitor) {
  switch (step.kind) {
    case StepKind::kAllocate:
      return visitor.Allocate(step);
    case StepKind::kFree:
      return visitor.Free(step);
    case StepKind::kRun:
      return visitor.Run(step);
    case StepKind::kOffload:
      return visitor.Offload(step);
    case StepKind::kAwait:
      return visitor.Await(step);
    case StepKind::kPrefetch:
      return visitor.Prefetch(step);
    case StepKind::kSynchronize:
    case StepKind::kDrop:  // not in a pool's schedule, and so are the next
    case StepKind::kReceive:
    case StepKind::kAdd:
      break;
  }
  return visitor.Synchronize();
}

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_VISIT_STEP_H_
