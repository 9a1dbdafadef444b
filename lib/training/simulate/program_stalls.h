// SPDX-License-Identifier: Apache-2.0
// The waits of the compute streams of a program, found from simulated or measured times.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_PROGRAM_STALLS_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_PROGRAM_STALLS_H_

#include <vector>

#include "absl/types/span.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/program.h"
#include "tidepool/training/timeline.h"

namespace tidepool::simulate {

// Returns the gaps between the tasks of each compute stream in which an operation ended that the
// next task waits for. Each gap names the operation that ended last. Other gaps are the time of
// starting a task. `times` has one entry for each operation of the program. O(operations + waits).
std::vector<TimelineStall> ProgramStalls(const TaskGraph& graph, const Program& program,
                                         absl::Span<const OperationTimes> times);

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_PROGRAM_STALLS_H_
