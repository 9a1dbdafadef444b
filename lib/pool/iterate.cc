// From one iteration to the next: what cannot be moved is told to who plans, and what plans need is
// taken from the device.
#include <algorithm>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

void PoolImpl::MarkIteration() {
  const std::lock_guard lock(mutex_);
  if (options_.recorder != nullptr) options_.recorder->Mark(kIterationMark);
  if (iterations_ == nullptr) return;
  iterations_->Mark();
  BeginIteration();
}

void PoolImpl::AwaitPlans() {
  if (iterations_ != nullptr) iterations_->AwaitPlans();
}

void PoolImpl::BeginIteration() {
  if (iterations_->End()) iterations_->Plan(FixedRanges());
  Provide(iterations_->Begin());
}

// What is there whatever the next iteration does. New segments begin behind the last fence.
std::vector<Range> PoolImpl::FixedRanges() const {
  const BlockMap& blocks = arena_.blocks();
  std::vector<Range> fixed;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (!blocks.used(id)) continue;
    // Where there is virtual memory, there can be memory again.
    const bool is_fixed =
        blocks.excluded(id) ? options_.memory == PoolMemory::kSegments : !iterations_->IsOwn(id);
    if (!is_fixed) continue;
    const std::int64_t begin = blocks.offset(id);
    if (!fixed.empty() && fixed.back().end == begin) {
      fixed.back().end += blocks.bytes(id);
    } else {
      fixed.push_back({begin, begin + blocks.bytes(id)});
    }
  }
  return fixed;
}

// Takes what plans of `bytes` lack, if it can be had: without it they are followed as far as it
// goes.
void PoolImpl::Provide(std::int64_t bytes) {
  BlockMap& blocks = arena_.blocks();
  const std::int64_t held = HeldBytes();
  if (options_.memory == PoolMemory::kSegments) {
    const std::int64_t missing = bytes - blocks.capacity();
    if (missing <= 0 || missing > options_.max_bytes - held || !blocks.HasNames(2)) return;
    AddSegment(missing, 0).IgnoreError();
  } else if (blocks.capacity() < bytes || blocks.excluded_bytes() > 0) {
    ProvideInPlace(std::min(bytes, options_.max_bytes)).IgnoreError();
  }
  if (HeldBytes() > held) CountGrowth();
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, HeldBytes());
}

absl::Status PoolImpl::ProvideInPlace(std::int64_t bytes) {
  if (absl::Status status = backing_.Retry(); !status.ok()) return status;
  const BlockMap& blocks = arena_.blocks();
  const Range range = {0, bytes};
  const Room room = {range, kNoBlock, Gaps(range)};
  const auto gaps = static_cast<std::int64_t>(room.gaps.size());
  std::int64_t included = std::max(bytes, blocks.capacity()) - blocks.excluded_bytes();
  for (const Gap& gap : room.gaps) {
    included +=
        std::max<std::int64_t>(0, std::min(gap.range.end, blocks.capacity()) - gap.range.begin);
  }
  if (included > options_.max_bytes || !arena_.blocks().HasNames(gaps) ||
      backing_.EndOfUnusable({0, backing_.Rounded(bytes)}) >= 0) {
    return absl::OkStatus();
  }
  if (absl::Status status = MapGaps(room); !status.ok()) return status;
  Include(room);
  return absl::OkStatus();
}

}  // namespace tidepool::pool
