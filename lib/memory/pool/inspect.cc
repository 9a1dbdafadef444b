// SPDX-License-Identifier: Apache-2.0
// Nothing here changes a pool.
#include "lib/memory/pool/inspect.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/memory/pool/check_blocks.h"
#include "tidepool/log.h"

namespace tidepool::pool {

PoolStats StatsOf(const StreamArena& arena) {
  const blocks::BlockMap& blocks = arena.blocks();
  PoolStats stats;
  stats.live_bytes = blocks.live_bytes();
  stats.live_count = arena.live_count();
  stats.peak_live_bytes = arena.arena().peak_live_bytes();
  stats.free_bytes = blocks.capacity() - blocks.excluded_bytes() - blocks.live_bytes();
  stats.largest_hole_bytes = blocks.LargestBytes();
  if (stats.free_bytes > 0) {
    stats.fragmentation =
        1 - static_cast<double>(stats.largest_hole_bytes) / static_cast<double>(stats.free_bytes);
  }
  stats.allocations = arena.allocations();
  stats.frees = arena.frees();
  stats.stream_waits = arena.hand_over().stream_waits();
  stats.event_records = arena.hand_over().order().event_records();
  return stats;
}

void ReportLiveOf(const StreamArena& arena) {
  ReportLive(arena.addresses(), arena.blocks(), arena.live_count(), kPoolWords, [&](BlockId block) {
    return absl::StrCat(", allocated on the stream with id ",
                        arena.hand_over().AllocatedOn(block).id);
  });
}

void ReportAbandoned(const absl::Status& status) {
  Log(LogLevel::kError,
      absl::StrCat("a pool cannot wait for the streams that used it and leaves its memory to the "
                   "device: ",
                   status.ToString()));
}

std::vector<PoolBlock> BlocksOf(const StreamArena& arena) {
  const blocks::BlockMap& blocks = arena.blocks();
  std::vector<PoolBlock> snapshot;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    if (blocks.excluded(id)) continue;
    PoolBlock block;
    block.address = arena.AddressOf(id);
    block.bytes = blocks.bytes(id);
    block.used = blocks.used(id);
    if (block.used) block.stream = arena.hand_over().AllocatedOn(id);
    block.pending = arena.hand_over().PendingStreams(id);
    snapshot.push_back(std::move(block));
  }
  return snapshot;
}

absl::Status CheckArena(const StreamArena& arena, const MemorySource& memory,
                        std::int64_t max_bytes) {
  const auto bytes_in = [&](const Range& range) { return memory.BytesIn(range); };
  const auto check_live = [&](BlockId block) {
    if (!arena.hand_over().HasTickets(block)) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("the live block at ", arena.blocks().offset(block), " has a ticket"));
  };
  return CheckBlocks(arena.blocks(), {max_bytes, arena.live_count()}, bytes_in, check_live);
}

}  // namespace tidepool::pool
