// SPDX-License-Identifier: Apache-2.0
// Names the step in the error of a call that the step made.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_STEP_ERROR_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_STEP_ERROR_H_

#include <cstddef>

#include "absl/status/status.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::execute {

// Returns OK for OK. Otherwise the error with the number of the step and its names: the task and
// its algorithm, or the data. `at` may be the number of steps, for errors after the last one.
absl::Status AtStep(const TaskGraph& graph, const Schedule& schedule, std::size_t at,
                    const absl::Status& error);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_STEP_ERROR_H_
