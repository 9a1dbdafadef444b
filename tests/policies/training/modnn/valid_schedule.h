// SPDX-License-Identifier: Apache-2.0
// The three checkers, on a schedule with addresses.
#ifndef TIDEPOOL_TESTS_POLICIES_TRAINING_MODNN_VALID_SCHEDULE_H_
#define TIDEPOOL_TESTS_POLICIES_TRAINING_MODNN_VALID_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/check_times/check_times.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::testing {

// Returns OK when order, addresses and simulated times are valid, and no time is below its bound.
inline absl::Status CheckMade(const MadeSchedule& made) {
  absl::Status status = ValidateSchedule(made.graphs, made.schedule);
  std::vector<std::int64_t> memory;
  for (const MachineDevice& device : made.machine.devices) memory.push_back(device.memory_bytes);
  if (status.ok() && made.schedule.memory == ScheduleMemory::kFixed) {
    status = ValidateAddresses(made.graphs, made.schedule, memory);
  }
  if (!status.ok()) return status;
  const absl::StatusOr<Program> program = LowerSchedule(made.graphs, made.schedule, made.machine);
  if (!program.ok()) return program.status();
  const std::vector<OperationTimes> times = TimeProgram(*program);
  status = CheckTimes(made.graphs, made.schedule, made.machine, times);
  if (!status.ok()) return status;
  const double seconds = SimulateProgram(made.graphs.front(), *program).seconds;
  if (seconds >= made.lower_bound_seconds * (1 - 1e-12)) return absl::OkStatus();
  return absl::InternalError("an iteration is faster than its lower bound");
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_TRAINING_MODNN_VALID_SCHEDULE_H_
