// SPDX-License-Identifier: Apache-2.0
// A gate that holds copies back until a test releases them.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_COPY_GATE_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_COPY_GATE_H_

#include <cstdint>

#include "lib/base/locks/mutex.h"

namespace tidepool::host {

// Each copy takes a ticket when it is queued, which decides whether it is held. So the effect of
// Hold and Release does not depend on when threads run. Thread-safe.
class CopyGate {
 public:
  void Hold() {
    const locks::MutexLock lock(&mutex_);
    is_held_ = true;
  }

  void Release() {
    const locks::MutexLock lock(&mutex_);
    is_held_ = false;
    ++releases_;
    was_released_.SignalAll();
  }

  // Returns the number of releases that a copy queued now has to wait for.
  std::uint64_t Ticket() const {
    const locks::MutexLock lock(&mutex_);
    return is_held_ ? releases_ + 1 : releases_;
  }

  // Waits for the releases of the ticket. Returns whether it had to wait.
  bool Pass(std::uint64_t ticket) {
    const locks::MutexLock lock(&mutex_);
    if (releases_ >= ticket) return false;
    while (releases_ < ticket) was_released_.Wait(&mutex_);
    return true;
  }

 private:
  mutable locks::Mutex mutex_;
  locks::CondVar was_released_;
  bool is_held_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t releases_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_COPY_GATE_H_
