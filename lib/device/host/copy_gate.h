// A gate that holds copies back until a test releases them.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_COPY_GATE_H_
#define TIDEPOOL_LIB_DEVICE_HOST_COPY_GATE_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tidepool::host {

// Each copy takes a ticket when it is queued, which decides whether it is held. So the effect of
// Hold and Release does not depend on when threads run. Thread-safe.
class CopyGate {
 public:
  void Hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }

  void Release() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    ++releases_;
    was_released_.notify_all();
  }

  // Returns the number of releases that a copy queued now has to wait for.
  std::uint64_t Ticket() const {
    const std::lock_guard lock(mutex_);
    return is_held_ ? releases_ + 1 : releases_;
  }

  // Waits for the releases of the ticket. Returns whether it had to wait.
  bool Pass(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    if (releases_ >= ticket) return false;
    was_released_.wait(lock, [&] { return releases_ >= ticket; });
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable was_released_;
  bool is_held_ = false;
  std::uint64_t releases_ = 0;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_COPY_GATE_H_
