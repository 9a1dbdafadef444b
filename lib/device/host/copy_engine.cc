// An engine is the time from which on it is idle. A copy takes the stretch of time that follows,
// and waits for its end. What a thread comes too late is not lost: copies that were queued follow
// each other without a gap, as on a device that needs no thread.
#include "lib/device/host/copy_engine.h"

#include <algorithm>
#include <cmath>

namespace tidepool::host {

CopyEngine::Clock::time_point CopyEngine::SpendTime(Clock::time_point ready, std::int64_t bytes) {
  std::unique_lock lock(mutex_);
  const Clock::time_point end = EndOfCopy(std::max(ready, idle_from_), bytes);
  idle_from_ = end;
  was_stopped_.wait_until(lock, end, [this] { return is_stopped_; });
  return end;
}

void CopyEngine::StopTime() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  was_stopped_.notify_all();
}

CopyEngine::Clock::time_point CopyEngine::EndOfCopy(Clock::time_point begin,
                                                    std::int64_t bytes) const {
  double nanoseconds = static_cast<double>(latency_ns_);
  if (bytes_per_second_ > 0) nanoseconds += static_cast<double>(bytes) * 1e9 / bytes_per_second_;
  nanoseconds = std::ceil(nanoseconds);
  // Doubles below this one are whole numbers that fit.
  // What is left of the clock, at most all that comes after its zero.
  const Clock::duration left = Clock::time_point::max() - std::max(begin, Clock::time_point());
  const auto rest = static_cast<double>(left.count());
  if (nanoseconds >= rest) return Clock::time_point::max();
  return begin + std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
}

}  // namespace tidepool::host
