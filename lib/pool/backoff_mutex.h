// A mutex for critical sections of some ten nanoseconds that several threads enter all the time.
//
// Handing the pool from core to core costs more than using it: every cache line of its books moves.
// A thread that finds the mutex taken therefore stays away, longer each time, so that the one that
// has it enters many times in a row; only who has stayed away for long goes to sleep. std::mutex
// sleeps at once, at the price of a system call on both sides.
#ifndef TIDEPOOL_LIB_POOL_BACKOFF_MUTEX_H_
#define TIDEPOOL_LIB_POOL_BACKOFF_MUTEX_H_

#include <atomic>
#include <cstdint>

namespace tidepool::pool {

// Meets the standard's Lockable. Not fair, and not recursive.
class BackoffMutex {
 public:
  void lock() {
    if (!try_lock()) [[unlikely]]
      LockSlowly();
  }
  bool try_lock() {
    std::uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      state_.notify_one();
  }

 private:
  enum State : std::uint32_t { kFree, kTaken, kAwaited };

  static constexpr int kFirstPauses = 128;
  static constexpr int kMostPauses = 4096;

  [[gnu::noinline]] void LockSlowly() {
    for (int pauses = kFirstPauses; pauses <= kMostPauses; pauses *= 2) {
      for (int i = 0; i < pauses; ++i) Pause();
      if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    }
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) state_.wait(kAwaited);
  }

  static void Pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<std::uint32_t> state_ = kFree;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_BACKOFF_MUTEX_H_
