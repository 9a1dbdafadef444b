// SPDX-License-Identifier: Apache-2.0
// The figures, the blocks and the invariants of a pool, read from its parts.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_INSPECT_H_
#define TIDEPOOL_LIB_MEMORY_POOL_INSPECT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "lib/memory/pool/live_report.h"
#include "lib/memory/pool/memory_source.h"
#include "lib/memory/pool/stream_arena.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// Returns the figures that an arena knows; the rest is 0.
PoolStats StatsOf(const StreamArena& arena);
// Writes the live allocations to stderr.
void ReportLiveOf(const StreamArena& arena);
// Writes to stderr why a pool leaves its memory to the device.
void ReportAbandoned(const absl::Status& status);
// Returns every block that has memory, in the order of offsets. O(blocks).
std::vector<PoolBlock> BlocksOf(const StreamArena& arena);
// Internal, with the first violation, when arena, tickets and memory contradict each other.
// O(n log n).
absl::Status CheckArena(const StreamArena& arena, const MemorySource& memory,
                        std::int64_t max_bytes);

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_INSPECT_H_
