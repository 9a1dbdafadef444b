// The two locks that a thread holds while it changes which memory a pool has.
#ifndef TIDEPOOL_LIB_POOL_MEMORY_LOCK_H_
#define TIDEPOOL_LIB_POOL_MEMORY_LOCK_H_

#include <mutex>

#include "lib/pool/backoff_mutex.h"

namespace tidepool::pool {

// Of a pool's books.
using Lock = std::unique_lock<BackoffMutex>;

// Adds the lock of the pool's memory to that of its books.
class MemoryLock {
 public:
  // `books` is held. It is released for a moment: the lock of the memory comes first.
  MemoryLock(std::mutex& memory, Lock& books) : memory_(memory, std::defer_lock), books_(books) {
    books_.unlock();
    Acquire();
  }
  // Releases the lock of the memory alone.
  ~MemoryLock() = default;
  MemoryLock(const MemoryLock&) = delete;
  MemoryLock& operator=(const MemoryLock&) = delete;

  // Calls the device for memory. Meanwhile other threads use the pool, but do not change its
  // memory. Returns what the call returns.
  template <typename Call>
  auto WithoutBooks(Call call) {
    books_.unlock();
    auto result = call();
    books_.lock();
    return result;
  }
  // The same for what may wait for work of a stream: other threads may do anything.
  template <typename Call>
  auto WithoutBoth(Call call) {
    books_.unlock();
    memory_.unlock();
    auto result = call();
    Acquire();
    return result;
  }

 private:
  void Acquire() {
    memory_.lock();
    books_.lock();
  }

  std::unique_lock<std::mutex> memory_;
  Lock& books_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_MEMORY_LOCK_H_
