// Memory from the device and back to it: growing by need and in steps, trimming at the end.
#include <algorithm>
#include <bit>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

// Makes room for `bytes` at the end. False when the budget or the device does not allow it.
absl::StatusOr<bool> PoolImpl::Grow(std::int64_t bytes) {
  growth_error_.clear();
  BlockMap& blocks = arena_.blocks();
  const std::int64_t missing = bytes - WildernessBytes();
  if (missing <= 0 || missing > options_.max_bytes - blocks.capacity()) return false;
  absl::Status status = GrowBacking(missing);
  // After an error too: the device may not have taken everything back.
  blocks.Resize(std::min(backing_.end(), options_.max_bytes));
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, backing_.held_bytes());
  if (absl::IsResourceExhausted(status)) {
    growth_error_ = std::string(status.message());
    return false;
  }
  if (!status.ok()) return status;
  ++stats_.growths;
  allocations_at_growth_ = stats_.allocations;
  return true;
}

absl::Status PoolImpl::GrowBacking(std::int64_t missing) {
  const std::int64_t capacity = arena_.blocks().capacity();
  const std::int64_t bytes =
      std::min(std::max(missing, GrowthStep()), options_.max_bytes - capacity);
  absl::Status status = backing_.GrowTo(capacity + bytes, (capacity + bytes) / kPieces);
  if (absl::IsResourceExhausted(status) && bytes > missing) {
    status = backing_.GrowTo(capacity + missing, (capacity + missing) / kPieces);
  }
  return status;
}

// While a pool fills, steps keep the calls of the device few; later, when it grows seldom,
// exactness is cheap. Their number stays logarithmic in the size of the pool.
std::int64_t PoolImpl::GrowthStep() const {
  constexpr std::int64_t kSeldom = 16;           // allocations from growth to growth
  constexpr std::int64_t kMostPerDoubling = 16;  // growths, for the next to be exact
  const std::int64_t capacity = arena_.blocks().capacity();
  const int doublings =
      std::bit_width(static_cast<std::uint64_t>(capacity / device_.granularity()));
  if (stats_.allocations - allocations_at_growth_ >= kSeldom &&
      stats_.growths < kMostPerDoubling * doublings) {
    return 0;
  }
  return static_cast<std::int64_t>(static_cast<double>(capacity) * options_.growth);
}

std::int64_t PoolImpl::WildernessBytes() const {
  const BlockMap& blocks = arena_.blocks();
  const BlockId last = blocks.Last();
  return last == kNoBlock || blocks.used(last) ? 0 : blocks.bytes(last);
}

absl::StatusOr<std::int64_t> PoolImpl::Trim(std::int64_t keep_bytes) {
  const std::lock_guard lock(mutex_);
  BlockMap& blocks = arena_.blocks();
  EmptyFronts();
  const std::int64_t held = backing_.held_bytes();
  const std::int64_t live_end = blocks.capacity() - WildernessBytes();
  const std::int64_t end = backing_.EndAfterShrinkTo(std::max(live_end, keep_bytes));
  if (end < blocks.capacity()) {
    absl::Status status = SynchronizeTickets(blocks.Last(), end, blocks.capacity());
    if (!status.ok()) return status;
  }
  absl::Status status = backing_.ShrinkTo(end);
  const BlockId last = FreeOrNone(blocks.Last());
  if (crossing_ && last != kNoBlock) {
    const BlockId kept = blocks.offset(last) < backing_.end() ? last : kNoBlock;
    tickets_.Take(last, backing_.end(), blocks.capacity(), kept, kNoBlock);
  }
  blocks.Resize(std::min(backing_.end(), options_.max_bytes));
  if (!status.ok()) return status;
  return held - backing_.held_bytes();
}

absl::Status PoolImpl::SynchronizeTickets(BlockId block, std::int64_t begin, std::int64_t end) {
  if (!crossing_) return order_.SynchronizeAll();
  absl::Status status;
  tickets_.ForEach(block, begin, end, [&](const Ticket& ticket) {
    status = order_.Synchronize(ticket);
    return status.ok();
  });
  return status;
}

}  // namespace tidepool::pool
