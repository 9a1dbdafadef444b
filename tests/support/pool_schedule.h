// SPDX-License-Identifier: Apache-2.0
// Schedules of layerwise policies for a pool, with the machine of a simulation.
#ifndef TIDEPOOL_TESTS_SUPPORT_POOL_SCHEDULE_H_
#define TIDEPOOL_TESTS_SUPPORT_POOL_SCHEDULE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "tests/support/pool_machine.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool::testing {

// The policies with LayerwiseOptions.
inline constexpr const char* kLayerwisePolicies[] = {"none", "vdnn", "vdnn++", "base"};

struct PoolPolicy : LayerwiseOptions {
  PoolMachine machine = {};
};

inline ScheduleRequest RequestOf(const PoolPolicy& options) {
  return {.machine = options.machine.machine,
          .placing = options.machine.placing,
          .options = LayerwiseOptions(options)};
}

inline absl::StatusOr<Schedule> MakePoolSchedule(std::string_view policy, const TaskGraph& graph,
                                                 const PoolPolicy& options) {
  const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy, graph, RequestOf(options));
  if (!made.ok()) return made.status();
  return made->schedule;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_POOL_SCHEDULE_H_
