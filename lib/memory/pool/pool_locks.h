// SPDX-License-Identifier: Apache-2.0
// PoolLocks: the locks of a pool that calls its device for memory while other threads use the pool.
//
// They are taken in the order give_back, memory, books. With regions the order of all is:
// PoolRegions::making_ or the mutex of one region, SharedRoom::taking_, give_back, memory, books of
// the main pool, PoolRegions::table_, books of a region. SlabPool::beginning_ and then
// StreamSlab::mutex_ come before books, and nothing is locked under StreamCache::mutex_ or
// SharedRoom::adding_. No thread waits for work of a stream while it holds memory or books, and
// none calls the device for memory while it holds the books: the driver may wait for all work in
// such a call. That work may depend on a thread that frees memory of this pool, and such a thread
// needs the books: holding them would be a deadlock. PhysicalStore::mutex_ is held in such calls,
// so it comes after memory and is never taken under books or table_.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_POOL_LOCKS_H_
#define TIDEPOOL_LIB_MEMORY_POOL_POOL_LOCKS_H_

#include <type_traits>

#include "lib/base/locks/mutex.h"
#include "lib/memory/pool/backoff_mutex.h"

namespace tidepool::pool {

struct PoolLocks {
  // A thread that gives memory back to the device holds it throughout.
  locks::Mutex give_back ABSL_ACQUIRED_BEFORE(memory);
  // Guards which memory the pool has.
  locks::Mutex memory ABSL_ACQUIRED_BEFORE(books);
  // Guards which memory is live, and everything else that each call reads.
  BackoffMutex books;

  // Makes a call without the books, and returns its result. Where the thread holds `memory`, other
  // threads use the pool meanwhile and do not change which memory it has; else they may do
  // anything.
  template <typename Call>
  auto WithoutBooks(Call call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(books) {
    books.unlock();
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      books.lock();
    } else {
      auto result = call();
      books.lock();
      return result;
    }
  }
  // Makes a call that may wait for work of a stream, and returns its result. Meanwhile other
  // threads may do anything.
  template <typename Call>
  auto WithoutBoth(Call call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory, books) {
    books.unlock();
    memory.Unlock();
    auto result = call();
    memory.Lock();
    books.lock();
    return result;
  }
};

// Holds the lock of the memory for a scope, in addition to the books, which are locked already.
// They are released for a moment, because the lock of the memory comes first. (The compiler would
// take a required lock of a constructor for a lock that the scope releases.)
class ABSL_SCOPED_LOCKABLE MemoryLock {
 public:
  explicit MemoryLock(PoolLocks& locks) ABSL_EXCLUSIVE_LOCK_FUNCTION(locks.memory) : locks_(locks) {
    locks_.books.AssertHeld();
    locks_.books.unlock();
    locks_.memory.Lock();
    locks_.books.lock();
  }
  ~MemoryLock() ABSL_UNLOCK_FUNCTION() { locks_.memory.Unlock(); }
  MemoryLock(const MemoryLock&) = delete;
  MemoryLock& operator=(const MemoryLock&) = delete;

 private:
  PoolLocks& locks_;
};

// Holds the lock of the thread that gives memory back, taken likewise.
class ABSL_SCOPED_LOCKABLE GiveBackLock {
 public:
  explicit GiveBackLock(PoolLocks& locks) ABSL_EXCLUSIVE_LOCK_FUNCTION(locks.give_back)
      : locks_(locks) {
    locks_.books.AssertHeld();
    locks_.books.unlock();
    locks_.give_back.Lock();
    locks_.books.lock();
  }
  ~GiveBackLock() ABSL_UNLOCK_FUNCTION() { locks_.give_back.Unlock(); }
  GiveBackLock(const GiveBackLock&) = delete;
  GiveBackLock& operator=(const GiveBackLock&) = delete;

 private:
  PoolLocks& locks_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_POOL_LOCKS_H_
