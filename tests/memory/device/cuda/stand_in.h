// SPDX-License-Identifier: Apache-2.0
// The stand-in as configured for the tests of CUDA devices.
#ifndef TIDEPOOL_TESTS_MEMORY_CUDA_STAND_IN_H_
#define TIDEPOOL_TESTS_MEMORY_CUDA_STAND_IN_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "dryrun/runtime/cudart/control.h"
#include "tests/support/sizes.h"

namespace tidepool {

struct StandInChanges {
  int devices = 2;
  std::int64_t memory_bytes = 64 << 20;
  std::int64_t granularity = 64 << 10;
  bool has_virtual_memory = true;
  std::int64_t copy_latency_ns = 0;
  bool dies_of_destroyed_streams = true;  // as a GPU's driver did
  bool has_one_host_thread = true;        // as a GPU's driver has
  int network_memory = 0;
};

inline void ConfigureStandIn(const StandInChanges& changes) {
  CudartHostConfig config;
  cudartHostDefaultConfig(&config);
  config.devices = changes.devices;
  config.memory_bytes = changes.memory_bytes;
  config.granularity = changes.granularity;
  config.has_virtual_memory = changes.has_virtual_memory ? 1 : 0;
  config.copy_latency_nanoseconds = changes.copy_latency_ns;
  config.dies_of_destroyed_streams = changes.dies_of_destroyed_streams ? 1 : 0;
  config.network_memory = changes.network_memory;
  config.has_one_host_thread = changes.has_one_host_thread ? 1 : 0;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
}

// Expects that everything but streams was given back.
inline void ExpectOnlyStreamsAreLive() {
  CudartHostLive live;
  cudartHostCountLive(&live);
  EXPECT_EQ(live.allocations + live.reservations + live.physical_handles + live.mappings, 0);
  EXPECT_EQ(live.events, 0);
}

// Returns the live objects that a program has to give back.
inline std::int64_t CountLive() {
  CudartHostLive live;
  cudartHostCountLive(&live);
  return live.streams + live.events + live.allocations + live.reservations + live.physical_handles +
         live.mappings;
}

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_MEMORY_CUDA_STAND_IN_H_
