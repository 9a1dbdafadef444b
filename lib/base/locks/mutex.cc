// SPDX-License-Identifier: Apache-2.0
// Waits of the annotated condition variable.
#include "lib/base/locks/mutex.h"

#include <pthread.h>

#include <algorithm>

#include "absl/time/clock.h"

namespace tidepool::locks {

SteadyTime ToSteady(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return SteadyTime::max();
  const SteadyTime now = SteadyNow();
  const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
  if (left >= absl::FromChrono(SteadyTime::max() - now)) return SteadyTime::max();
  return now + absl::ToChronoNanoseconds(left);
}

void CondVar::Wait(Mutex* mutex) {
  // GCC 12 gives std::condition_variable::wait a version that libstdc++ of GCC 11 does not have.
  pthread_cond_wait(variable_.native_handle(), mutex->mutex_.native_handle());
}

bool CondVar::WaitWithDeadline(Mutex* mutex, SteadyTime deadline) {
  if (deadline == SteadyTime::max()) {
    Wait(mutex);
    return false;
  }
  std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
  const std::cv_status status = variable_.wait_until(lock, deadline);
  lock.release();
  return status == std::cv_status::timeout;
}

bool CondVar::WaitFor(Mutex* mutex, std::chrono::nanoseconds duration) {
  std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
  const std::cv_status status = variable_.wait_for(lock, duration);
  lock.release();
  return status == std::cv_status::timeout;
}

}  // namespace tidepool::locks
