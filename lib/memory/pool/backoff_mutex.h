// SPDX-License-Identifier: Apache-2.0
// BackoffMutex: a mutex for critical sections of some ten nanoseconds that several threads enter
// all the time.
//
// Moving the pool from core to core costs more than using it: every cache line of its books moves.
// A thread that finds the mutex taken therefore pauses, longer each time, so that its owner enters
// many times in a row. A thread that paused for long goes to sleep. std::mutex sleeps at once, at
// the price of a system call on both sides. Figures are in docs/design/pool.md.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_BACKOFF_MUTEX_H_
#define TIDEPOOL_LIB_MEMORY_POOL_BACKOFF_MUTEX_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"

namespace tidepool::pool {

// Meets the standard's Lockable. Not fair, and not recursive.
class ABSL_LOCKABLE BackoffMutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (!TryTake()) [[unlikely]]
      LockSlowly();
  }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return TryTake(); }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]]
      state_.notify_one();
  }
  // Tells the compiler, in a function object, that the caller of the object holds the mutex.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  enum State : std::uint32_t { kFree, kTaken, kAwaited };

  static constexpr int kFirstPauses = 128;
  static constexpr int kMostPauses = 4096;

  bool TryTake() {
    std::uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kTaken, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  [[gnu::noinline]] void LockSlowly() {
    for (int pauses = kFirstPauses; pauses <= kMostPauses; pauses *= 2) {
      for (int i = 0; i < pauses; ++i) Pause();
      if (state_.load(std::memory_order_relaxed) == kFree && TryTake()) return;
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

// Holds a BackoffMutex for a scope.
class ABSL_SCOPED_LOCKABLE BackoffLock {
 public:
  explicit BackoffLock(BackoffMutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();
  }
  ~BackoffLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  BackoffLock(const BackoffLock&) = delete;
  BackoffLock& operator=(const BackoffLock&) = delete;

 private:
  BackoffMutex& mutex_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_BACKOFF_MUTEX_H_
