// Where copies are held.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_COPY_GATE_H_
#define TIDEPOOL_LIB_DEVICE_HOST_COPY_GATE_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tidepool::host {

// Thread-safe. What holds a copy is settled when it is queued, not when a thread comes to it: so
// orders to hold and to release mean the same however threads are scheduled.
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

  // How many releases a copy that is queued now has to see.
  std::uint64_t Ticket() const {
    const std::lock_guard lock(mutex_);
    return is_held_ ? releases_ + 1 : releases_;
  }

  // Whether it had to wait.
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
