// SPDX-License-Identifier: Apache-2.0
// The simulated time of copies in one direction.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_COPY_ENGINE_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_COPY_ENGINE_H_

#include <chrono>
#include <cstdint>

#include "lib/base/locks/mutex.h"

namespace tidepool::host {

// A queue of copies without the copies: it says when each would end, and waits. Thread-safe.
class CopyEngine {
 public:
  // A bandwidth of 0 is unlimited.
  CopyEngine(double bytes_per_second, std::int64_t latency_ns)
      : bytes_per_second_(bytes_per_second), latency_ns_(latency_ns) {}

  using Clock = std::chrono::steady_clock;

  // Waits until a copy of `bytes` bytes would end, and returns that time. The copy begins at
  // `ready`, or at the end of the previous copy if that is later.
  Clock::time_point SpendTime(Clock::time_point ready, std::int64_t bytes);
  // Ends the simulation: copies from now on take no time, and copies that wait return at once.
  void StopTime();

 private:
  Clock::time_point EndOfCopy(Clock::time_point begin, std::int64_t bytes) const;

  const double bytes_per_second_;
  const std::int64_t latency_ns_;
  locks::Mutex mutex_;
  locks::CondVar was_stopped_;
  // The clock's zero would be wrong: it may be the start of the machine, a moment ago.
  Clock::time_point idle_from_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::min();
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_COPY_ENGINE_H_
