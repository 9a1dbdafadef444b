// SPDX-License-Identifier: Apache-2.0
// The time that the schedule of a chain takes on the chain's graph.
#ifndef TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SIMULATED_SECONDS_H_
#define TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SIMULATED_SECONDS_H_

#include <gtest/gtest.h>

#include <algorithm>

#include "tidepool/training/chain.h"
#include "tidepool/training/program.h"
#include "tidepool/training/timeline.h"

namespace tidepool::testing {

// The machine of the paper: one direction of the link at a time.
inline Machine MachineOfChain(const GraphChain& made) {
  Machine machine;
  machine.devices[0].memory_bytes = made.chain.memory_bytes + made.resident_bytes;
  MachineLink& link = machine.links[0];
  link.out_bytes_per_second = link.in_bytes_per_second = made.chain.link_bytes_per_second;
  link.full_duplex = false;
  return machine;
}

// Expects that the schedule is valid and has a program. Returns its time, or -1.
inline double SimulatedSeconds(const TaskGraph& graph, const GraphChain& made,
                               const absl::StatusOr<Schedule>& schedule) {
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return -1;
  const absl::Status valid = ValidateSchedule(graph, *schedule);
  EXPECT_TRUE(valid.ok()) << valid;
  const absl::StatusOr<Program> program =
      LowerSchedule(absl::MakeConstSpan(&graph, 1), *schedule, MachineOfChain(made));
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return -1;
  double seconds = 0;
  for (const OperationTimes& one : TimeProgram(*program)) seconds = std::max(seconds, one.end);
  return seconds;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SIMULATED_SECONDS_H_
