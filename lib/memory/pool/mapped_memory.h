// SPDX-License-Identifier: Apache-2.0
// MappedMemory: one range of addresses in which memory is mapped as the pool grows.
//
// New memory is a neighbour of old. Growth finds the lowest addresses with nothing live in them and
// maps memory to the gaps among them.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_MAPPED_MEMORY_H_
#define TIDEPOOL_LIB_MEMORY_POOL_MAPPED_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/memory/pool/backing.h"
#include "lib/memory/pool/memory_source.h"
#include "lib/memory/pool/physical_store.h"
#include "lib/memory/pool/pool_options.h"

namespace tidepool::pool {

class MappedMemory : public MemorySource {
 public:
  MappedMemory(Device& device, const PoolOptions& options, StreamArena& arena, PhysicalStore& store)
      : MemorySource(device, options, arena),
        backing_(device, store),
        granule_(device.granularity()),
        store_(store) {}
  ~MappedMemory() override {
    if (base() != nullptr) TellRemoved(base());
  }

  void Abandon() override { backing_.Abandon(); }
  bool MayGrow(std::int64_t bytes) const override;
  std::int64_t held_bytes() const override { return backing_.held_bytes(); }
  void* base() const final { return backing_.base(); }
  Backing* backing() final { return &backing_; }
  void ExcludeGone(PoolLocks& locks) final ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);

 protected:
  // A range without memory in a site, and the tickets of work that may still use the memory that
  // will fill it.
  struct Gap {
    Range range;
    Tickets tickets;
  };
  // Addresses for a request: nothing in them is live. The block holds them when there is no gap.
  struct Site {
    Range range;
    BlockId block = kNoBlock;
    std::vector<Gap> gaps;
  };

  // Plans that have addresses of their own give back the memory between buffers that stay. The part
  // of each piece next to such a buffer stays too.
  static constexpr std::int64_t kMostPlannedPiece = std::int64_t{8} << 20;

  // Fills the gaps of a site. Returns the free block that its end is in, or kNoBlock.
  virtual absl::StatusOr<BlockId> Fill(Site site, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  // Returns the bytes of a piece of new memory, for a pool of `pool_bytes`.
  virtual std::int64_t PieceBytes(std::int64_t pool_bytes) const {
    if (const std::int64_t bytes = store_.piece_bytes(); bytes > 0) return bytes;
    const std::int64_t bytes = pool_bytes / kPieces;
    return options_.placement == kPlanned ? std::min(bytes, kMostPlannedPiece) : bytes;
  }
  // Unmaps old addresses of moved memory where their work has finished.
  virtual void DropAliases([[maybe_unused]] PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) {}
  // Waits on the host for the work at all old addresses of moved memory. Returns whether there was
  // any.
  virtual absl::StatusOr<bool> AwaitAliases([[maybe_unused]] PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) {
    return false;
  }
  // Takes a site, of which the gaps have memory now, into the arena. Returns the free block that
  // its end is in.
  BlockId IncludeSite(const Site& site);
  BlockId Include(const Range& range, const Tickets& tickets) override;

  Backing backing_;
  const std::int64_t granule_;

 private:
  absl::Status TakeInitial(std::int64_t bytes, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::StatusOr<Placement> TakeFor(const Request& request, Growth& growth,
                                    PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  void ProvideMemory(Range range, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::Status SetAsideAll(std::int64_t keep_bytes, const Range& kept, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::Status Give(const Range& range, Receiver receiver, bool& is_held, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  std::int64_t HeldBytesIn(const Range& range) const override {
    return backing_.PieceBytesIn(range);
  }
  std::int64_t LeastGrowth() const override { return granule_; }
  Tickets TakeTicketsBeyond(const Range& range) override;

  absl::Status RetryUnmapping(PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::Status MapGaps(const Site& site, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  std::optional<Site> FindSite(std::int64_t bytes) const;
  Range RangeFrom(std::int64_t begin, std::int64_t bytes) const;
  std::vector<Gap> GapsIn(const Range& range) const;
  bool IsFree(BlockId block, const Range& range) const;
  bool CanCutOffEnd(const Site& site, std::int64_t excess) const;
  void CutOffEnd(std::int64_t excess);
  BlockId Extend(std::int64_t end, const Range& range, const Tickets& tickets);
  void SetAsidePieces(BlockId block, std::int64_t keep_bytes, const Range& kept,
                      std::int64_t& left);

  PhysicalStore& store_;
  // The tickets of the part of the last granule that lies after the end of the arena.
  Tickets cut_off_tickets_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_MAPPED_MEMORY_H_
