// SPDX-License-Identifier: Apache-2.0
// RemappingMemory: virtual memory that moves free granules to addresses where a request finds no
// room.
//
// Tickets order the work that may still use a moved granule, and go with it. The old addresses stay
// mapped, and out of use, until that work has finished. So fragmentation costs calls of the device
// and refuses no request. After GMLake (ASPLOS 2024), which stitches granules in the same way and
// keeps pools of stitched blocks; here the map of addresses is kept instead.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_REMAPPING_MEMORY_H_
#define TIDEPOOL_LIB_MEMORY_POOL_REMAPPING_MEMORY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lib/memory/pool/mapped_memory.h"

namespace tidepool::pool {

class RemappingMemory final : public MappedMemory {
 public:
  using MappedMemory::MappedMemory;

  // Asks for budget alone: free memory can move even when every offset has memory.
  // NOLINTNEXTLINE(bugprone-parent-virtual-call)
  bool MayGrow(std::int64_t bytes) const override { return MemorySource::MayGrow(bytes); }

 private:
  // A free granule that moves, and the tickets of work that may still use its memory.
  struct Donor {
    BlockId block = kNoBlock;
    Range piece;
    Tickets tickets;
  };
  // Old addresses of a granule, which work of the tickets may still use.
  struct Alias {
    std::int64_t begin = 0;
    Tickets tickets;
  };

  absl::StatusOr<BlockId> Fill(Site site, PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books) {
    return FillByMoving(std::move(site), false, locks);
  }
  std::int64_t PieceBytes(std::int64_t) const override { return granule_; }
  void DropAliases(PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::Status AwaitMoves(PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  absl::StatusOr<bool> AwaitAliases(PoolLocks& locks) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  bool MayGive(PoolLocks& locks) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);

  absl::StatusOr<BlockId> FillByMoving(Site site, bool moves_all, PoolLocks& locks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(locks.memory, locks.books);
  std::vector<Donor> DonorsOutside(const Range& site) const;
  std::vector<Range> GranulesOf(const std::vector<Gap>& gaps) const;
  absl::Status MapAndMove(absl::Span<const Range> wanted, const std::vector<Donor>& donors);
  absl::Status MoveAll(const std::vector<Donor>& donors, absl::Span<const Range> targets);

  std::vector<Alias> aliases_;  // still mapped
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_REMAPPING_MEMORY_H_
