// SPDX-License-Identifier: Apache-2.0
// Nothing here changes a pool.
#include "lib/pool/inspect.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"

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
    return absl::StrCat(", allocated on stream ", arena.hand_over().AllocatedOn(block).id);
  });
}

void ReportAbandoned(const absl::Status& status) {
  std::fprintf(stderr,
               "tidepool: a pool cannot wait for the streams that used it and leaves its memory to "
               "the device: %s\n",
               status.ToString().c_str());
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
  const blocks::BlockMap& blocks = arena.blocks();
  if (absl::Status status = blocks.CheckInvariants(); !status.ok()) return status;
  if (blocks.capacity() - blocks.excluded_bytes() > max_bytes) {
    return absl::InternalError("the arena is larger than the budget");
  }
  std::int64_t live_count = 0;
  for (BlockId id = blocks.First(); id != kNoBlock; id = blocks.Next(id)) {
    const Range range = {blocks.offset(id), blocks.offset(id) + blocks.bytes(id)};
    if (memory.BytesIn(range) != (blocks.excluded(id) ? 0 : range.bytes())) {
      return absl::InternalError(absl::StrCat("the block at ", range.begin,
                                              " has memory and is out of the arena, or is in it "
                                              "and has no memory"));
    }
    if (!blocks.used(id) || blocks.excluded(id)) continue;
    ++live_count;
    if (arena.hand_over().HasTickets(id)) {
      return absl::InternalError(absl::StrCat("the live block at ", range.begin, " has a ticket"));
    }
  }
  if (live_count != arena.live_count()) {
    return absl::InternalError("the counts differ from the blocks");
  }
  return absl::OkStatus();
}

}  // namespace tidepool::pool
