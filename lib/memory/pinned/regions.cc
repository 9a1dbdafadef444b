// SPDX-License-Identifier: Apache-2.0
// Regions: pinned for a reserve or for one buffer, and given back when nothing in them is live.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/pinned/host_memory.h"
#include "lib/memory/pinned/pinned_pool_impl.h"
#include "lib/memory/pool/segment_blocks.h"

namespace tidepool::pinned {
namespace {

// A buffer of more than a quarter of the growth gets a region of its size.
constexpr std::int64_t kLargePart = 4;

}  // namespace

absl::Status PinnedPoolImpl::Reserve(std::int64_t bytes) {
  const pool::BackoffLock lock(locks_.books);
  if (bytes < 0 || bytes > options_.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("reserve of ", text::ExactSize(bytes),
                                                   ", expected 0 to the budget, ",
                                                   text::ExactSize(options_.max_bytes)));
  }
  const pool::MemoryLock memory(locks_);
  absl::Status status = PinUntil(bytes);
  ServeWaiting();  // even after an error there may be more memory than before
  return status;
}

absl::Status PinnedPoolImpl::PinUntil(std::int64_t bytes) {
  const std::int64_t page = PageBytes(options_.pages);
  while (regions_.held_bytes() < bytes) {
    if (!arena_.blocks().HasNames(2)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("an arena has at most ", arena_.blocks().max_blocks(), " blocks"));
    }
    const std::int64_t missing = AlignUp(bytes - regions_.held_bytes(), page);
    const std::int64_t wanted = std::min(missing, sizes_.most_bytes);
    const absl::StatusOr<BlockId> block = AddRegion(wanted, wanted);
    if (!block.ok()) return block.status();
  }
  return absl::OkStatus();
}

bool PinnedPoolImpl::MayGrow(std::int64_t bytes) {
  growth_error_.clear();
  if (options_.may_grow) return true;
  const std::int64_t page = PageBytes(options_.pages);
  const std::int64_t needed = AlignUp(bytes, page);
  if (needed <= options_.max_bytes - regions_.held_bytes()) {
    growth_error_ =
        "an allocation may not grow it; set may_grow, or call Reserve when pinning does no harm";
  }
  return false;
}

absl::StatusOr<Placement> PinnedPoolImpl::Grow(std::int64_t bytes) {
  if (!MayGrow(bytes)) return Placement::None();
  const std::int64_t page = PageBytes(options_.pages);
  const std::int64_t needed = AlignUp(bytes, page);
  if (!arena_.blocks().HasNames(2)) {
    growth_error_ = absl::StrCat("an arena has at most ", arena_.blocks().max_blocks(), " blocks");
    return Placement::None();
  }
  const absl::StatusOr<bool> has_budget = MakeBudget(needed);
  if (!has_budget.ok()) return has_budget.status();
  if (!*has_budget) return Placement::None();
  const std::int64_t step = std::min(sizes_.growth_bytes, sizes_.most_bytes);
  const std::int64_t left = options_.max_bytes - regions_.held_bytes();
  const std::int64_t wanted =
      needed > step / kLargePart ? needed : std::max(needed, std::min(step, left));
  const absl::StatusOr<BlockId> block = AddRegion(needed, wanted);
  if (absl::IsResourceExhausted(block.status())) {  // a free may still make room
    growth_error_ = std::string(block.status().message());
    return Placement::None();
  }
  if (!block.ok()) return block.status();
  ++stats_.growths;
  return Placement::At(*block, arena_.blocks().offset(*block));
}

// Pins a region of `wanted` bytes, or of `bytes` when the host has no memory for more. Returns the
// free block that the region is.
absl::StatusOr<BlockId> PinnedPoolImpl::AddRegion(std::int64_t bytes, std::int64_t wanted) {
  const absl::StatusOr<PinnedMemory> pinned = locks_.WithoutBooks([&] {
    absl::StatusOr<PinnedMemory> all = pinner_.Pin(wanted);
    return absl::IsResourceExhausted(all.status()) && wanted > bytes ? pinner_.Pin(bytes) : all;
  });
  if (!pinned.ok()) return pinned.status();
  ++stats_.pins;
  stats_.pin_ns += pinned->pin_ns;
  const pool::Range region = regions_.Add(pinned->address, pinned->bytes);
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, regions_.held_bytes());
  return pool::IncludeSegment(arena_.blocks(), regions_, region);
}

// Gives free regions back, the smallest first, until there is budget for `bytes`. Returns false,
// and gives no more back, when all free regions are too small.
absl::StatusOr<bool> PinnedPoolImpl::MakeBudget(std::int64_t bytes) {
  for (;;) {
    const std::int64_t missing = bytes - (options_.max_bytes - regions_.held_bytes());
    if (missing <= 0) return true;
    const std::vector<BlockId> smallest =
        pool::SmallestFreeSegments(arena_.blocks(), regions_, missing);
    if (smallest.empty()) return false;
    // Other threads use the pool meanwhile, so the next round looks again.
    if (absl::Status status = GiveBackRegion(smallest.front()); !status.ok()) return status;
  }
}

absl::StatusOr<std::int64_t> PinnedPoolImpl::Trim(std::int64_t keep_bytes) {
  const pool::BackoffLock lock(locks_.books);
  const pool::MemoryLock memory(locks_);
  const blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t held = regions_.held_bytes();
  absl::Status status;
  std::int64_t end = blocks.capacity();  // the regions from here on were looked at
  while (status.ok()) {
    const std::int64_t spare = regions_.held_bytes() - keep_bytes;
    const std::vector<BlockId> free_regions = pool::FreeSegments(blocks, regions_);
    const auto last = std::find_if(free_regions.rbegin(), free_regions.rend(), [&](BlockId id) {
      return blocks.offset(id) < end && blocks.bytes(id) <= spare;
    });
    if (last == free_regions.rend()) break;
    end = blocks.offset(*last);
    status = GiveBackRegion(*last);
  }
  ServeWaiting();  // there is budget to grow
  if (!status.ok()) return status;
  return held - regions_.held_bytes();
}

// Gives back a region that is a free block. The block is out of the arena first, so that no other
// thread takes it.
absl::Status PinnedPoolImpl::GiveBackRegion(BlockId block) {
  blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t begin = blocks.offset(block);
  const pool::Range region = {begin, begin + blocks.bytes(block)};
  blocks.Exclude(Placement::At(block, region.begin), region.bytes());
  void* const address = regions_.Hide(region);
  absl::Status status = locks_.WithoutBooks([&] { return pinner_.Unpin(address, region.bytes()); });
  if (status.ok()) {
    regions_.Remove(region);
  } else {
    regions_.Show(region);
    pool::IncludeSegment(blocks, regions_, region);
  }
  return status;
}

}  // namespace tidepool::pinned
