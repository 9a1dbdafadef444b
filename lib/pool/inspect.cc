// What a pool says of itself.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/pool/pool_impl.h"

namespace tidepool::pool {

PoolStats PoolImpl::Stats() const {
  const std::lock_guard lock(mutex_);
  return StatsLocked();
}

PoolStats PoolImpl::StatsLocked() const {
  const blocks::BlockMap& blocks = arena_.blocks();
  PoolStats stats = stats_;
  stats.live_bytes = blocks.live_bytes();
  stats.peak_live_bytes = arena_.peak_live_bytes();
  stats.reserved_bytes = HeldBytes();
  stats.max_bytes = options_.max_bytes;
  stats.high_water_bytes = HighWater();
  stats.free_bytes = blocks.capacity() - blocks.excluded_bytes() - blocks.live_bytes();
  stats.largest_hole_bytes = blocks.LargestBytes();
  if (stats.free_bytes > 0) {
    stats.fragmentation =
        1 - static_cast<double>(stats.largest_hole_bytes) / static_cast<double>(stats.free_bytes);
  }
  stats.event_records = order_.event_records();
  if (iterations_ != nullptr) {
    const PlannedCounts counts = planned_->counts();
    stats.planned = counts.planned;
    stats.deviations = counts.deviations;
    stats.plans = iterations_->plans_made();
  }
  return stats;
}

std::int64_t PoolImpl::OffsetOf(const void* address) const {
  const std::lock_guard lock(mutex_);
  return addresses_.OffsetOf(address);
}

std::vector<PoolBlock> PoolImpl::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<PoolBlock> snapshot;
  const blocks::BlockMap& blocks = arena_.blocks();
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.excluded(id)) continue;
    const std::int64_t begin = blocks.offset(id);
    PoolBlock block;
    block.address = addresses_.AddressOf(begin);
    block.bytes = blocks.bytes(id);
    block.used = blocks.used(id);
    if (block.used) block.stream = allocated_on_[id];
    tickets_.ForEach(id, begin, begin + block.bytes, [&](const Ticket& ticket) {
      const Stream stream = order_.StreamOf(ticket);
      const bool is_new =
          std::find(block.pending.begin(), block.pending.end(), stream) == block.pending.end();
      if (is_new && order_.MayRun(ticket)) block.pending.push_back(stream);
      return true;
    });
    snapshot.push_back(std::move(block));
  }
  return snapshot;
}

absl::Status PoolImpl::CheckInvariants() const {
  const std::scoped_lock lock(memory_mutex_, mutex_);
  const blocks::BlockMap& blocks = arena_.blocks();
  if (absl::Status status = blocks.CheckInvariants(); !status.ok()) return status;
  if (blocks.capacity() - blocks.excluded_bytes() > options_.max_bytes) {
    return absl::InternalError("the arena is larger than the budget");
  }
  std::int64_t live_count = 0;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    const Backing::Range range = {blocks.offset(id), blocks.offset(id) + blocks.bytes(id)};
    const std::int64_t held =
        backing_.PieceBytesIn(range) + segments_.BytesIn(range) - LeavingBytesIn(range);
    if (held != (blocks.excluded(id) ? 0 : range.bytes())) {
      return absl::InternalError(absl::StrCat("the block at ", range.begin,
                                              " has memory and is out of the arena, or is in it "
                                              "and has none"));
    }
    if (!blocks.used(id) || blocks.excluded(id)) continue;
    ++live_count;
    const std::int64_t begin = blocks.offset(id);
    if (!tickets_.ForEach(id, begin, begin + blocks.bytes(id),
                          [](const Ticket&) { return false; })) {
      return absl::InternalError(absl::StrCat("the live block at ", begin, " has a ticket"));
    }
  }
  const PoolStats stats = StatsLocked();
  if (live_count != stats_.live_count || stats.live_count != stats.allocations - stats.frees) {
    return absl::InternalError("the counts differ from the blocks");
  }
  return absl::OkStatus();
}

std::size_t PoolImpl::CountStreams() const {
  const std::lock_guard lock(mutex_);
  return order_.size();
}

std::int64_t PoolImpl::CountAsleep() const {
  const std::lock_guard lock(mutex_);
  return line_.CountAsleep();
}

std::int64_t PoolImpl::LeavingBytesIn(const Range& range) const {
  std::int64_t bytes = 0;
  for (const Leaving& leaving : leaving_) {
    if (range.begin <= leaving.range.begin && leaving.range.end <= range.end) {
      bytes += leaving.range.bytes();
    }
  }
  return bytes;
}

void PoolImpl::ReportLive() const {
  constexpr int kListed = 10;
  std::fprintf(stderr, "tidepool: a pool is destroyed with %lld bytes live in %lld allocations\n",
               static_cast<long long>(arena_.blocks().live_bytes()),
               static_cast<long long>(stats_.live_count));
  const blocks::BlockMap& blocks = arena_.blocks();
  int listed = 0;
  for (BlockId id = blocks.First(); id != kNoBlock && listed < kListed; id = blocks.Next(id)) {
    if (!blocks.used(id) || blocks.excluded(id)) continue;
    ++listed;
    std::fprintf(stderr, "  %p: %lld bytes, allocated on stream %llu\n",
                 static_cast<void*>(addresses_.AddressOf(blocks.offset(id))),
                 static_cast<long long>(blocks.bytes(id)),
                 static_cast<unsigned long long>(allocated_on_[id].id));
  }
}

}  // namespace tidepool::pool
