// SPDX-License-Identifier: Apache-2.0
// Mutexes and a condition variable of the standard library, with the annotations that clang's
// -Wthread-safety checks.
//
// absl::Mutex has annotations too. But Debian builds Abseil with assertions, and then absl::Mutex
// searches for deadlocks: locking and unlocking took 58 ns there and 3 ns here. ThreadSanitizer
// knows the standard library's mutexes, and not those of a packaged Abseil.
#ifndef TIDEPOOL_LIB_BASE_LOCKS_MUTEX_H_
#define TIDEPOOL_LIB_BASE_LOCKS_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace tidepool::locks {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }
  // Tells the compiler that the thread holds the mutex, where it cannot see that.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;

  std::mutex mutex_;
};

// A mutex that any number of readers, or one writer, can hold.
class ABSL_LOCKABLE SharedMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  void ReaderLock() ABSL_SHARED_LOCK_FUNCTION() { mutex_.lock_shared(); }
  void ReaderUnlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds a mutex for a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(*mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Holds a shared mutex for a scope, as its writer.
class ABSL_SCOPED_LOCKABLE WriterMutexLock {
 public:
  explicit WriterMutexLock(SharedMutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(*mutex) {
    mutex_.Lock();
  }
  ~WriterMutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  WriterMutexLock(const WriterMutexLock&) = delete;
  WriterMutexLock& operator=(const WriterMutexLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Holds a shared mutex for a scope, as one of its readers.
class ABSL_SCOPED_LOCKABLE ReaderMutexLock {
 public:
  explicit ReaderMutexLock(SharedMutex* mutex) ABSL_SHARED_LOCK_FUNCTION(mutex) : mutex_(*mutex) {
    mutex_.ReaderLock();
  }
  ~ReaderMutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.ReaderUnlock(); }
  ReaderMutexLock(const ReaderMutexLock&) = delete;
  ReaderMutexLock& operator=(const ReaderMutexLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// A time of a clock that nothing sets: waits end in time when the time of day changes.
using SteadyTime = std::chrono::steady_clock::time_point;

inline SteadyTime SteadyNow() { return std::chrono::steady_clock::now(); }

// Returns a deadline by that clock; a deadline that has passed is the present, and an endless one
// SteadyTime::max().
SteadyTime ToSteady(absl::Time deadline);

class CondVar {
 public:
  // Releases the mutex, waits for a signal, and takes the mutex again. May wake without a signal.
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Waits at most until the deadline; returns whether it has passed.
  bool WaitWithDeadline(Mutex* mutex, SteadyTime deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Waits at most so long, by the same clock; returns whether the time has passed.
  bool WaitFor(Mutex* mutex, std::chrono::nanoseconds duration)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Signal() { variable_.notify_one(); }
  void SignalAll() { variable_.notify_all(); }

 private:
  std::condition_variable variable_;
};

}  // namespace tidepool::locks

#endif  // TIDEPOOL_LIB_BASE_LOCKS_MUTEX_H_
