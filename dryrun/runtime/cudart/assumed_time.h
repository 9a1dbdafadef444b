// SPDX-License-Identifier: Apache-2.0
// The time that work is assumed to take on the clock of events (device_clock.h).
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_ASSUMED_TIME_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_ASSUMED_TIME_H_

#include <algorithm>
#include <cstdint>

#include "dryrun/runtime/cudart/attention.h"
#include "dryrun/runtime/cudart/control.h"

namespace tidepool::cudart_host {

// Returns the time of a launch and of moving `bytes` in the device's memory, in nanoseconds.
inline std::int64_t AssumedTime(const CudartHostConfig& config, double bytes) {
  constexpr double kLaunch = 5000;
  if (config.assumed_bytes_per_second == 0) return 0;
  return static_cast<std::int64_t>(kLaunch + bytes * 1e9 / config.assumed_bytes_per_second);
}

// Returns the time of a copy over the link between device and host, in nanoseconds.
inline std::int64_t AssumedTimeOfLink(const CudartHostConfig& config, double bytes) {
  CudartHostConfig link = config;
  if (config.assumed_link_bytes_per_second > 0) {
    link.assumed_bytes_per_second = config.assumed_link_bytes_per_second;
  }
  return config.assumed_bytes_per_second == 0 ? 0 : AssumedTime(link, bytes);
}

struct KernelWork {
  std::int64_t bytes = 0;
  double operations = 0;  // of attention
};

// Returns the time of a launch, and that of the bytes or the operations, whichever is longer.
inline std::int64_t AssumedTimeOfKernel(const CudartHostConfig& config, const KernelWork& work) {
  const double rate =
      config.assumed_operations_per_second * EfficiencyOfAttention(config.capability);
  const double bytes = rate > 0 ? work.operations / rate * config.assumed_bytes_per_second : 0;
  return AssumedTime(config, std::max(static_cast<double>(work.bytes), bytes));
}

// Kernels for elements give each thread four floats to read or write.
inline std::int64_t AssumedBytesOf(std::int64_t threads) {
  constexpr std::int64_t kBytesOfThread = 16;
  return threads * kBytesOfThread;
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_ASSUMED_TIME_H_
