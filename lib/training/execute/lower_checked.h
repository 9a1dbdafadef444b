// SPDX-License-Identifier: Apache-2.0
// Checks of a schedule that comes to an executor, and its program.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_LOWER_CHECKED_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_LOWER_CHECKED_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"

namespace tidepool::execute {

// Returns the program of a schedule with fixed addresses, or with pages, which it maps. Errors:
// those of ValidateAddresses, ValidateSchedule and LowerSchedule; InvalidArgument for the schedule
// of a pool, for more devices than the machine has, for steps kAdd without a function that adds,
// and with a pipeline for several devices and for compressed copies of a part of the data.
absl::StatusOr<Program> LowerChecked(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                                     const Machine& machine, const ExecutorOptions& options);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_LOWER_CHECKED_H_
