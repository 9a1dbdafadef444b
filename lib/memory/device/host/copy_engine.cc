// SPDX-License-Identifier: Apache-2.0
// An engine is the time at which it becomes idle. A copy takes the span that follows and waits for
// the span's end. A thread that wakes late does not shift the next copy: copies that were queued in
// time follow each other without a gap, as on a device without threads.
#include "lib/memory/device/host/copy_engine.h"

#include <algorithm>
#include <cmath>

namespace tidepool::host {

CopyEngine::Clock::time_point CopyEngine::SpendTime(Clock::time_point ready, std::int64_t bytes) {
  const locks::MutexLock lock(&mutex_);
  const Clock::time_point end = EndOfCopy(std::max(ready, idle_from_), bytes);
  idle_from_ = end;
  for (Clock::time_point now = Clock::now(); !is_stopped_ && now < end; now = Clock::now()) {
    was_stopped_.WaitFor(&mutex_, end - now);
  }
  return end;
}

void CopyEngine::StopTime() {
  const locks::MutexLock lock(&mutex_);
  is_stopped_ = true;
  was_stopped_.SignalAll();
}

CopyEngine::Clock::time_point CopyEngine::EndOfCopy(Clock::time_point begin,
                                                    std::int64_t bytes) const {
  double nanoseconds = static_cast<double>(latency_ns_);
  if (bytes_per_second_ > 0) nanoseconds += static_cast<double>(bytes) * 1e9 / bytes_per_second_;
  nanoseconds = std::ceil(nanoseconds);
  // The rest of the clock's range, from at least the clock's zero. A double below it is a whole
  // number that fits.
  const Clock::duration left = Clock::time_point::max() - std::max(begin, Clock::time_point());
  const auto rest = static_cast<double>(left.count());
  if (nanoseconds >= rest) return Clock::time_point::max();
  return begin + std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
}

}  // namespace tidepool::host
