// SPDX-License-Identifier: Apache-2.0
// The time that a program takes.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_MAKESPAN_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_MAKESPAN_H_

#include <algorithm>

#include "tidepool/training/timeline.h"

namespace tidepool::simulate {

// Returns the end of the last operation, in seconds. O(operations + waits).
inline double MakespanOf(const Program& program) {
  double seconds = 0;
  for (const OperationTimes& times : TimeProgram(program)) seconds = std::max(seconds, times.end);
  return seconds;
}

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_MAKESPAN_H_
