// From one iteration to the next: what cannot be moved is told to who plans, and what plans need is
// taken from the device.
#include <algorithm>

#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

void PoolImpl::MarkIteration() {
  Lock lock(mutex_);
  if (options_.recorder != nullptr) options_.recorder->Mark(kIterationMark);
  if (iterations_ != nullptr) {
    iterations_->Mark();
    BeginIteration(lock);
  }
  ServeWaiting();  // there may be more memory
}

void PoolImpl::AwaitPlans() {
  if (iterations_ != nullptr) iterations_->AwaitPlans();
}

void PoolImpl::BeginIteration(Lock& lock) {
  if (iterations_->End()) iterations_->Plan(FixedRanges());
  Provide(iterations_->Begin(), lock);
}

// What is there whatever the next iteration does. New segments begin behind the last fence.
std::vector<Range> PoolImpl::FixedRanges() const {
  const blocks::BlockMap& blocks = arena_.blocks();
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
void PoolImpl::Provide(std::int64_t bytes, Lock& lock) {
  if (bytes == 0) return;
  const blocks::BlockMap& blocks = arena_.blocks();
  const bool in_segments = options_.memory == PoolMemory::kSegments;
  if (blocks.capacity() >= bytes && (in_segments || blocks.excluded_bytes() == 0)) return;
  MemoryLock memory(memory_mutex_, lock);
  TakeBackLeaving();
  const std::int64_t held = HeldBytes();
  if (in_segments) {
    ProvideSegment(bytes, memory);
  } else {
    ProvideInPlace(std::min(bytes, options_.max_bytes), memory).IgnoreError();
  }
  if (HeldBytes() > held) CountGrowth();
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, HeldBytes());
}

void PoolImpl::ProvideSegment(std::int64_t bytes, MemoryLock& memory) {
  const blocks::BlockMap& blocks = arena_.blocks();
  const std::int64_t missing = bytes - blocks.capacity();
  if (missing <= 0 || missing > options_.max_bytes - HeldBytes() || !blocks.HasNames(2)) return;
  AddSegment(missing, 0, memory).IgnoreError();
}

absl::Status PoolImpl::ProvideInPlace(std::int64_t bytes, MemoryLock& memory) {
  if (absl::Status status = RetryGivingBack(memory); !status.ok()) return status;
  const blocks::BlockMap& blocks = arena_.blocks();
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
  if (absl::Status status = MapGaps(room, memory); !status.ok()) return status;
  Include(room);
  return absl::OkStatus();
}

}  // namespace tidepool::pool
