// The time that copies in one direction take.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_COPY_ENGINE_H_
#define TIDEPOOL_LIB_DEVICE_HOST_COPY_ENGINE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tidepool::host {

// Thread-safe.
class CopyEngine {
 public:
  // No bandwidth is one without bound.
  CopyEngine(double bytes_per_second, std::int64_t latency_ns)
      : bytes_per_second_(bytes_per_second), latency_ns_(latency_ns) {}

  using Clock = std::chrono::steady_clock;

  // The end of a copy that can begin at `ready` and does when those before it are over; waits for
  // it.
  Clock::time_point SpendTime(Clock::time_point ready, std::int64_t bytes);
  // From here on copies take no time, those that wait included.
  void StopTime();

 private:
  Clock::time_point EndOfCopy(Clock::time_point begin, std::int64_t bytes) const;

  const double bytes_per_second_;
  const std::int64_t latency_ns_;
  std::mutex mutex_;
  std::condition_variable was_stopped_;
  // Not the clock's zero, which may be the start of the machine, a moment ago.
  Clock::time_point idle_from_ = Clock::time_point::min();
  bool is_stopped_ = false;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_COPY_ENGINE_H_
