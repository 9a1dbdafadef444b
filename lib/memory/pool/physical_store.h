// SPDX-License-Identifier: Apache-2.0
// PhysicalStore: the physical memory of a pool and its regions, under one budget.
//
// A region that sleeps lends its memory. Lent memory stays mapped where it was until another taker
// needs it, so a region that wakes before gets it back without a call of the device.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_PHYSICAL_STORE_H_
#define TIDEPOOL_LIB_MEMORY_POOL_PHYSICAL_STORE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/pool/queued_work.h"
#include "lib/memory/sharing/shared_budget.h"
#include "tidepool/device.h"

namespace tidepool::pool {

// The receiver of unused memory of a taker.
enum class Receiver : std::uint8_t {
  kDevice,
  kTakers,  // of the store, which it is lent to, without a call of the device
};

// A pool or region that takes memory of a store. The store changes it; anyone may read it.
class Taker {
 public:
  // Returns the bytes that it has, mapped or not, without those that it lends.
  std::int64_t held_bytes() const { return held_.load(std::memory_order_relaxed); }
  // Returns the bytes for which others leave room in the budget while it is awake.
  std::int64_t least_bytes() const { return least_.load(std::memory_order_relaxed); }
  // Returns the bytes that it may hold.
  std::int64_t most_bytes() const { return most_.load(std::memory_order_relaxed); }
  // Whether it was refused memory last because it may hold no more.
  bool is_full() const { return is_full_.load(std::memory_order_relaxed); }

 private:
  friend class PhysicalStore;

  // Returns the bytes for which others leave room beside those that it holds.
  std::int64_t MissingBytes() const {
    return is_asleep_ ? 0 : std::max<std::int64_t>(0, least_ - held_);
  }

  std::atomic<std::int64_t> held_ = 0;
  std::atomic<std::int64_t> least_ = 0;
  std::atomic<std::int64_t> most_ = std::numeric_limits<std::int64_t>::max();
  std::atomic<bool> is_full_ = false;
  bool is_asleep_ = false;
  std::int64_t charged_ = 0;  // of a shared budget, for memory that it is about to take
  std::int64_t refused_ = 0;  // bytes of a shared budget, by the last BeginTaking
  std::int64_t wanted_ = 0;   // the most bytes that it asked for since TakeMissing
};

// Thread-safe. No function but AwaitLent and GiveBackLent waits for work of a stream.
class PhysicalStore {
 public:
  explicit PhysicalStore(Device& device) : device_(device) {}
  // Gives back lent memory that is mapped nowhere. The rest went back with its regions.
  ~PhysicalStore();
  PhysicalStore(const PhysicalStore&) = delete;
  PhysicalStore& operator=(const PhysicalStore&) = delete;

  // Shares a budget of `bytes`, rounded down to whole granules, with other pools by a file, before
  // any memory is taken. The errors are those of SharedBudget::Join.
  absl::Status Share(const std::string& path, std::int64_t bytes);
  // Returns the budget that is shared, or null.
  sharing::SharedBudget* shared() const { return shared_.get(); }

  // A taker is known from Join until Leave, and in between its functions may be called.
  void Join(Taker& taker);
  void Leave(Taker& taker);
  // Sets the bytes for which others leave room while the taker is awake, and the bytes that it may
  // hold. ResourceExhausted, with the figures, when others hold too much or the limit is too low;
  // FailedPrecondition when the taker holds more than `most_bytes`. An error changes nothing.
  absl::Status Bound(Taker& taker, std::int64_t least_bytes, std::int64_t most_bytes);
  // Says that its memory is lent as a whole, until BeginTaking.
  void SetAsleep(Taker& taker);

  // Limits all memory together, and makes its pieces equal, so that one serves another's request.
  // Memory that exists already counts.
  void Limit(std::int64_t bytes);
  // Returns the limit in whole granules; 0 without one. Waits for no other call.
  std::int64_t limit_bytes() const { return limit_.load(std::memory_order_relaxed); }
  // Returns the bytes of a piece of new memory; 0 without a limit.
  std::int64_t piece_bytes() const;

  // Takes lent memory of that size after its work has finished, or new memory of the device, which
  // counts in the shared budget for the first taker of BeginTaking, `payer`, already.
  // ResourceExhausted when neither the limits nor the device allow it.
  absl::StatusOr<PhysicalMemory> Create(Taker& taker, std::int64_t bytes, Taker& payer);
  // Gives memory that is not lent to the device.
  absl::Status Release(Taker& taker, PhysicalMemory memory, std::int64_t bytes);

  // Lends memory that is mapped at an address, or at null. It is taken after `work`; null is no
  // work.
  void Lend(Taker& taker, void* address, PhysicalMemory memory, std::int64_t bytes,
            std::shared_ptr<QueuedWork> work);
  // Whether memory is lent and still mapped at its address.
  bool IsLent(PhysicalMemory memory, const void* address) const;
  // Ends the loan of memory that is still mapped at its address. Returns false when it is not.
  bool TakeBack(Taker& taker, PhysicalMemory memory, const void* address);

  // The bytes that a taker is about to take, and `kept_bytes` with those that it does not take yet.
  struct Taking {
    Taker* taker = nullptr;
    std::int64_t bytes = 0;
    std::int64_t kept_bytes = 0;
  };
  // Begins to take memory in pieces, for takers of which all but one sleep: counts all of it in a
  // shared budget before the first, for the first taker, so that of two pools one has it. None of
  // the takers sleeps any more. EndTaking of the first one follows, with or without all pieces.
  // ResourceExhausted, with the figures, when the bytes are more than the limits leave, with all
  // that is lent; then nothing has changed.
  absl::Status BeginTaking(absl::Span<const Taking> takings);
  void EndTaking(Taker& first);
  // Tells the other processes the bytes of theirs that the last BeginTaking of a first taker
  // lacked.
  void TellWanted(const Taker& taker);
  // Returns the bytes that others must give back before the most that a taker asked for since the
  // last call fits, in whole pieces. If it asked for none that is all that they have.
  std::int64_t TakeMissing(Taker& taker);
  // Waits on the host for the work of lent memory.
  absl::Status AwaitLent();
  // Gives all lent memory to the device, after its work. Returns the bytes.
  absl::StatusOr<std::int64_t> GiveBackLent();

  std::int64_t held_bytes() const;
  std::int64_t lent_bytes() const;
  // Return, note and reset the most bytes that takers held when NotePeak was called. None waits for
  // a call of the device that another function makes.
  std::int64_t peak_bytes() const { return peak_bytes_; }
  void NotePeak();
  void ResetPeak() { peak_bytes_ = used_bytes_.load(); }
  // Internal when a bound or the limit is exceeded, with the room that is kept, or when memory that
  // no taker holds or lends counts.
  absl::Status CheckInvariants() const;

 private:
  struct Loan {
    void* address = nullptr;
    std::int64_t bytes = 0;
    std::shared_ptr<QueuedWork> work;
  };
  using Loans = absl::flat_hash_map<std::uint64_t, Loan>;  // by the name of the memory
  using BySize = absl::btree_set<std::pair<std::int64_t, std::uint64_t>>;

  void Add(std::uint64_t name, Loan loan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends a loan: a taker has the memory.
  void End(Loans::iterator loan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a loan of memory that the device has back.
  void Forget(Loans::iterator loan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns `bytes` in whole granules.
  std::int64_t InGranules(std::int64_t bytes) const;
  std::int64_t HeldBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return used_bytes_ + lent_bytes_;
  }
  // Return the name of lent memory that no work uses any more, or 0: of a size, or the largest.
  std::uint64_t FinishedOf(std::int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t LargestFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unmaps lent memory.
  absl::Status Unmap(std::uint64_t name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives lent memory to the device. Returns false when the work of all that is lent is under way.
  absl::StatusOr<bool> GiveBackOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the bytes for which a taker leaves room.
  std::int64_t KeptBytes(const Taker& taker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AllowMost(Taker& taker, std::int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AllowRoom(const Taker& taker, std::int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NoRoom(const Taker& taker, std::int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Returns memory of the device.
  absl::StatusOr<PhysicalMemory> CreateOfDevice(Taker& payer, std::int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReleaseToDevice(std::uint64_t name, std::int64_t bytes);

  Device& device_;
  std::unique_ptr<sharing::SharedBudget> shared_;
  mutable locks::Mutex mutex_;
  std::atomic<std::int64_t> limit_ = 0;  // 0: none; changed under the mutex
  std::int64_t piece_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<std::int64_t> used_bytes_ = 0;  // held by takers; changed under the mutex
  std::int64_t lent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<std::int64_t> peak_bytes_ = 0;  // of used_bytes_
  std::vector<Taker*> takers_ ABSL_GUARDED_BY(mutex_);
  Loans loans_ ABSL_GUARDED_BY(mutex_);
  BySize by_size_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_PHYSICAL_STORE_H_
