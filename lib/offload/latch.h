// Something that happens once, and for which threads of the device wait.
#ifndef TIDEPOOL_LIB_OFFLOAD_LATCH_H_
#define TIDEPOOL_LIB_OFFLOAD_LATCH_H_

#include <condition_variable>
#include <mutex>

namespace tidepool::internal::offload {

// Thread-safe.
class Latch {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    was_opened_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    was_opened_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable was_opened_;
  bool is_open_ = false;
};

}  // namespace tidepool::internal::offload

#endif  // TIDEPOOL_LIB_OFFLOAD_LATCH_H_
