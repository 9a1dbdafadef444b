// SPDX-License-Identifier: Apache-2.0
// MemorySource: where the memory of a pool comes from, how it grows, and how it goes back.
//
// Memory that leaves the pool is out of the arena first, so that no thread takes it. Then the
// thread waits for the work that may still use it, without the locks, and then the device gets it.
// A thread that needs room meanwhile takes the memory back into the arena.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_MEMORY_SOURCE_H_
#define TIDEPOOL_LIB_MEMORY_POOL_MEMORY_SOURCE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/memory/pool/backing.h"
#include "lib/memory/pool/physical_store.h"
#include "lib/memory/pool/pool_locks.h"
#include "lib/memory/pool/range.h"
#include "lib/memory/pool/stream_arena.h"
#include "lib/memory/pool/ticket.h"
#include "tidepool/placement.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// Functions that release locks meanwhile have a parameter `locks`: other threads change the pool,
// so no block or clock that was found before such a call is valid after it.
class MemorySource {
 public:
  // Makes the source that resolved options ask for. The arena and the store outlive it.
  static std::unique_ptr<MemorySource> Create(Device& device, const PoolOptions& options,
                                              StreamArena& arena, PhysicalStore& store);
  // Returns how many bytes of offsets a pool needs: whole granules of virtual memory.
  static std::int64_t AddressBytes(const PoolOptions& options, const Device& device);

  MemorySource(Device& device, const PoolOptions& options, StreamArena& arena)
      : device_(device), options_(options), arena_(arena) {}
  // Gives all memory back to the device; nothing may use it any more.
  virtual ~MemorySource() = default;
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;

  // Takes the initial memory. Called once, first.
  absl::Status Start(PoolLocks& locks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.books);
  // Makes room for a request that no free block serves. Returns no block when the budget or the
  // device does not allow it. growth_error is then the error of the device, or of an arena with too
  // many blocks; empty for the budget.
  absl::StatusOr<Placement> Grow(const Request& request, Stream stream, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.books);
  // Takes the memory that plans in a range of offsets lack, if the device has it. Plans are
  // followed as far as there is memory.
  void Provide(const Range& range, PoolLocks& locks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.books);
  // Gives unused memory outside of `kept` to a receiver, as long as `keep_bytes` stay, with the
  // memory that `kept` lacks. Returns how much.
  absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes, const Range& kept, Receiver receiver,
                                    PoolLocks& locks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.books);
  // Leaves all memory to the device for ever: work may still use it.
  virtual void Abandon() = 0;
  // Forbids every change of the memory but through backing(), or allows it again.
  void SetAsleep(bool is_asleep) { is_asleep_ = is_asleep; }
  bool is_asleep() const { return is_asleep_; }
  // Returns the pieces of virtual memory, which `locks.memory` guards; null for segments.
  virtual Backing* backing() { return nullptr; }
  // Takes free memory that was lent, and that others have, out of the arena.
  virtual void ExcludeGone([[maybe_unused]] PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) {}
  // Waits on the host until no memory is mapped at an old address too.
  virtual absl::Status AwaitMoves([[maybe_unused]] PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) {
    return absl::OkStatus();
  }

  // Whether growth could serve a request. If not, a waiter may sleep without having tried it.
  virtual bool MayGrow(std::int64_t bytes) const;
  // Returns the bytes that the pool holds of the device. Thread-safe.
  virtual std::int64_t held_bytes() const = 0;
  // Returns the highest end of any block so far.
  virtual std::int64_t high_water() const { return arena_.arena().high_water(); }
  // Returns the first address when all addresses are one range, or null.
  virtual void* base() const { return nullptr; }
  // Whether excluded blocks never get memory again.
  virtual bool exclusions_stay() const { return false; }
  // Returns how much of a range of the arena has memory. Reads the books and the memory.
  std::int64_t BytesIn(const Range& range) const;
  const std::string& growth_error() const { return growth_error_; }
  // Adds the counts of growth.
  void AddCounts(PoolStats& stats) const;
  void ResetPeak() { peak_held_bytes_ = held_bytes(); }

 protected:
  // How far one growth has come.
  struct Growth {
    bool again = false;            // something changed: look for a free block once more
    bool gives_back = false;       // the thread holds the lock of giving memory back
    bool must_give_back = false;   // the thread needs that lock
    bool device_is_full = false;   // the device had no memory for a segment
    bool awaited_aliases = false;  // the work at old addresses of moved memory was awaited
  };

  // Memory is taken from the device in pieces of this part of the pool: the calls are few, and some
  // memory can be given back.
  static constexpr std::int64_t kPieces = 16;

  virtual absl::Status TakeInitial(std::int64_t bytes, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) = 0;
  // Grows once. ResourceExhausted when the device has no memory.
  virtual absl::StatusOr<Placement> TakeFor(const Request& request, Growth& growth,
                                            PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) = 0;
  virtual void ProvideMemory(Range range, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) = 0;
  // Sets unused memory outside of `kept` aside, the last first, as long as `keep_bytes` stay.
  virtual absl::Status SetAsideAll(std::int64_t keep_bytes, const Range& kept, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) = 0;
  // Gives a range that was set aside to a receiver: segments go to the device alone. Clears
  // `is_held` when the pool has it no more.
  virtual absl::Status Give(const Range& range, Receiver receiver, bool& is_held, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) = 0;
  // Prepares ranges that were set aside, after their work has finished. Returns false when their
  // memory would stay mapped.
  virtual bool MayGive([[maybe_unused]] PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) {
    return true;
  }
  // Takes a range that has memory into the arena, as free. Returns its free block.
  virtual BlockId Include(const Range& range, const Tickets& tickets) {
    return arena_.Include(range, tickets);
  }
  // Returns how much of a range has memory, in the arena or set aside.
  virtual std::int64_t HeldBytesIn(const Range& range) const = 0;
  // Returns the least bytes that the source takes of the device at once.
  virtual std::int64_t LeastGrowth() const = 0;

  // Takes a range of a free block out of the arena, to be given back.
  void SetAside(BlockId block, const Range& range);
  // Gives the ranges that were set aside to a receiver.
  absl::Status GiveLeaving(Receiver receiver, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  // Returns how many bytes growth takes at least.
  std::int64_t GrowthStep() const;
  void CountGrowth();
  // Tells the observer which ranges of addresses the pool has.
  void TellAdded(const void* begin, std::int64_t bytes) const {
    if (options_.recorder != nullptr) options_.recorder->AddRange(begin, bytes);
  }
  void TellRemoved(const void* begin) const {
    if (options_.recorder != nullptr) options_.recorder->RemoveRange(begin);
  }

  Device& device_;
  const PoolOptions& options_;
  StreamArena& arena_;
  std::int64_t given_back_bytes_ = 0;  // by the present Trim
  std::int64_t remaps_ = 0;
  std::int64_t remapped_bytes_ = 0;

 private:
  struct Leaving {
    Range range;
    Tickets tickets;
  };

  absl::StatusOr<Placement> GrowUntilPlaced(const Request& request, Stream stream, Growth& growth,
                                            PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::StatusOr<Placement> TakeOnce(const Request& request, Growth& growth, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  // Returns and forgets the tickets of memory in the range that lies after the end of the arena:
  // the rest of a granule in which the budget ends.
  virtual Tickets TakeTicketsBeyond(const Range& /*range*/) { return {}; }
  void TakeBackLeaving();
  void NotePeak();

  std::deque<Leaving> leaving_;  // the ranges with the highest offsets first
  std::int64_t growths_ = 0;
  std::int64_t allocations_at_growth_ = 0;
  std::int64_t peak_held_bytes_ = 0;
  std::string growth_error_;
  bool is_asleep_ = false;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_MEMORY_SOURCE_H_
