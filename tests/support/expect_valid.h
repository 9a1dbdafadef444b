// SPDX-License-Identifier: Apache-2.0
// Hands a schedule to the three checkers, which share no code with policies, and compares its time
// with the bound.
#ifndef TIDEPOOL_TESTS_SUPPORT_EXPECT_VALID_H_
#define TIDEPOOL_TESTS_SUPPORT_EXPECT_VALID_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/check_times/check_times.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/timeline.h"

namespace tidepool {

inline void ExpectValid(const MadeSchedule& made) {
  ASSERT_EQ(ValidateSchedule(made.graphs, made.schedule), absl::OkStatus());
  std::vector<std::int64_t> memory;
  for (const MachineDevice& device : made.machine.devices) memory.push_back(device.memory_bytes);
  if (made.schedule.memory == ScheduleMemory::kFixed) {
    ASSERT_EQ(ValidateAddresses(made.graphs, made.schedule, memory), absl::OkStatus());
  }
  const absl::StatusOr<Program> program = LowerSchedule(made.graphs, made.schedule, made.machine);
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<OperationTimes> times = TimeProgram(*program);
  EXPECT_EQ(CheckTimes(made.graphs, made.schedule, made.machine, times), absl::OkStatus());
  EXPECT_GE(SimulateProgram(made.graphs.front(), *program).seconds,
            made.lower_bound_seconds * (1 - 1e-12));
}

// Returns the number of runs of tasks in a schedule.
inline std::size_t RunsOf(const Schedule& schedule) {
  return static_cast<std::size_t>(
      std::count_if(schedule.steps.begin(), schedule.steps.end(),
                    [](const ScheduleStep& step) { return step.kind == StepKind::kRun; }));
}

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_SUPPORT_EXPECT_VALID_H_
