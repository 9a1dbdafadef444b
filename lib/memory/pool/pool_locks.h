// SPDX-License-Identifier: Apache-2.0
// PoolLocks: the locks of a pool that calls its device for memory while other threads use the pool.
//
// The locks of the room in the order in which a thread takes them. Those marked "device" are held
// in calls of the device for memory, in which the driver may wait for all work. That work may
// depend on a thread that frees memory of this pool, and such a thread needs the locks without the
// mark: held in such a call, they would be a deadlock.
//
//   PoolRegions::making_, or Region::control        device   making and changing regions; those
//                                                            of several by their addresses
//   SharedRoom::taking_                             device   taking room from other pools
//   give_back                                       device   giving memory back
//   memory                                          device   which memory the pool has
//   PhysicalStore::mutex_                           device   the budget; never under books
//   SharedBudget::mutex_, then its file                      the budget of processes; likewise
//   SlabPool::beginning_, then StreamSlab::mutex_            the slabs of streams
//   books of the pool                                        which memory is live, and all counts
//   PoolRegions::table_                                      the list of regions
//   books of a region                                        which memory of it is live
//   Region::arriving                                         which contents of a resume are there
//
// Nothing is locked under StreamCache::mutex_, SharedRoom::adding_ or the mutex of SharedObserver.
// No thread waits for work of a stream while it holds memory or books.
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
