// SPDX-License-Identifier: Apache-2.0
// A machine with one device, and how a schedule of a pool takes its memory.
#ifndef TIDEPOOL_TESTS_SUPPORT_POOL_MACHINE_H_
#define TIDEPOOL_TESTS_SUPPORT_POOL_MACHINE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/timeline.h"

namespace tidepool::testing {

struct PoolMachine {
  Machine machine = {};
  PlacingOptions placing = {};

  std::int64_t& memory() { return machine.devices.front().memory_bytes; }
  std::int64_t memory() const { return machine.devices.front().memory_bytes; }
  std::int64_t& host_memory() { return machine.host.memory_bytes; }
  std::int64_t host_memory() const { return machine.host.memory_bytes; }
  MachineLink& link() { return machine.links.front(); }
  const MachineLink& link() const { return machine.links.front(); }
  void SetRate(double bytes_per_second) {
    link().out_bytes_per_second = link().in_bytes_per_second = bytes_per_second;
  }
};

inline absl::StatusOr<Timeline> Simulate(const TaskGraph& graph, const Schedule& schedule,
                                         const PoolMachine& pool) {
  return tidepool::Simulate(graph, schedule, pool.machine, pool.placing);
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_POOL_MACHINE_H_
