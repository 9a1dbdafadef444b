// SPDX-License-Identifier: Apache-2.0
// StagedCopies: copies between the device memory of a region and a ContentsStore, through two
// blocks of page-locked memory. The device copies one block while the store has the other.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_STAGED_COPIES_H_
#define TIDEPOOL_LIB_MEMORY_POOL_STAGED_COPIES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/memory/device/owned.h"
#include "lib/memory/pool/range.h"
#include "tidepool/contents_store.h"
#include "tidepool/device.h"

namespace tidepool::pool {

// A part of the contents of a region.
struct SavedPart {
  Range memory;             // offsets of the region
  std::int64_t offset = 0;  // of its first byte, in the contents
};

// Not thread-safe. Both copies wait on the host until they have finished. After an error some may
// be under way.
class StagedCopies {
 public:
  // `memory` is the first address of the region, `host` page-locked memory of HostBytes(store).
  StagedCopies(Device& device, ContentsStore& store, std::byte* memory, std::byte* host,
               Stream stream);
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  static std::int64_t HostBytes(const ContentsStore& store) {
    return std::int64_t{kSlots} * store.block_bytes();
  }

  // Copy parts, in the order of their offsets in the contents: all of the contents, which have
  // `bytes` bytes, to the store, or some of them back. `queued` is called with the offset of the
  // region at which the copies of a block end, when they are queued.
  absl::Status Save(absl::Span<const SavedPart> parts, std::int64_t bytes);
  absl::Status Restore(absl::Span<const SavedPart> parts, std::int64_t bytes,
                       absl::FunctionRef<absl::Status(std::int64_t)> queued);

 private:
  static constexpr int kSlots = 2;
  struct Slot {
    absl::Span<std::byte> host;
    device::OwnedEvent copied;  // its last copies
  };

  absl::Status MakeSlots();
  std::int64_t BlocksOf(std::int64_t bytes) const;
  Slot& SlotOf(std::int64_t turn) { return slots_[static_cast<std::size_t>(turn % kSlots)]; }
  // Returns the bytes of a slot that a block has.
  absl::Span<std::byte> BlockIn(const Slot& slot, std::int64_t block, std::int64_t bytes) const;
  // Returns the pieces of parts that lie in a block, with their offsets in it. Blocks ascend.
  std::vector<SavedPart> PiecesIn(std::int64_t block, absl::Span<const SavedPart> parts);
  // Queues the copies between a slot and the memory of pieces.
  absl::Status Copy(const Slot& slot, absl::Span<const SavedPart> pieces, CopyDirection direction);

  Device& device_;
  ContentsStore& store_;
  std::byte* const memory_;
  std::byte* const host_;
  const Stream stream_;
  std::array<Slot, kSlots> slots_;
  std::size_t next_part_ = 0;  // the first that may lie in the next block
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_STAGED_COPIES_H_
