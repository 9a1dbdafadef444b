// SPDX-License-Identifier: Apache-2.0
// Sizing: the smallest pool for a trace, under one placement policy and under any.
//
// Sizes of allocations and of pools are rounded up to `alignment`, a power of two. All functions
// compute placements only and touch no memory. They are thread-safe as long as no two calls share a
// policy.
#ifndef TIDEPOOL_TRACE_SIZING_H_
#define TIDEPOOL_TRACE_SIZING_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// The demand of a trace on any pool.
struct TraceLoad {
  std::int64_t peak_live_bytes = 0;  // aligned; a lower bound of every pool
  std::int64_t peak_event = 0;       // the index of the event that reaches it first
  std::int64_t peak_live_count = 0;  // the most allocations live at a time
  std::int64_t unfreed_count = 0;    // allocations live at the end
  std::int64_t unfreed_bytes = 0;    // aligned bytes of these allocations
};

// Returns InvalidArgument when `alignment` is not a power of two up to 1 GiB, or when the live
// bytes exceed the 2^44 granules that an arena can address (8 PiB at 512 bytes). O(events).
TIDEPOOL_EXPORT absl::StatusOr<TraceLoad> MeasureLoad(const Trace& trace, std::int64_t alignment);

// The memory that the recorded allocator had taken from its device.
struct ReservedLoad {
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t peak_event = 0;      // the index of the event that reaches it first
  std::int64_t reserved_bytes = 0;  // at the end
};

// Returns no value for a trace without reservations. Sums beyond 64 bits stay at their limits.
// O(events).
TIDEPOOL_EXPORT std::optional<ReservedLoad> MeasureReserved(const Trace& trace);

struct ReplayOptions {
  std::int64_t pool_bytes = 0;  // cut to a multiple of `alignment`
  std::int64_t alignment = 512;
  bool stop_at_refusal = false;  // false: skip a refused allocation and its free
  bool keep_offsets = false;
  std::stop_token stop = {};  // ends the replay with Cancelled
};

struct ReplayResult {
  std::int64_t refused = 0;  // allocations that the pool could not serve
  std::int64_t first_refused_event = -1;
  std::int64_t first_refused_bytes = 0;  // aligned
  std::int64_t largest_free_bytes = 0;   // at the first refusal
  std::int64_t high_water_bytes = 0;     // the highest end of any block
  std::int64_t peak_live_bytes = 0;
  std::vector<std::int64_t> offsets;  // one per allocation, -1 = refused; empty unless requested
};

// Serves `trace` from one arena under `policy`. Returns MeasureLoad's errors, and InvalidArgument
// for a negative pool or one larger than an arena can be. O(events log blocks).
TIDEPOOL_EXPORT absl::StatusOr<ReplayResult> Replay(const Trace& trace, PlacementPolicy& policy,
                                                    const ReplayOptions& options);

struct MinimumPoolOptions {
  std::int64_t alignment = 512;
  // The number of events that the exact search may simulate, over all its pieces (below). The work
  // to divide a piece counts as events, too. The default takes about a second.
  std::int64_t most_steps = 3'000'000;
  // The time limit of the exact search, counted from the end of the restart search; infinity is
  // allowed. It guards against traces for which `most_steps` takes long. An answer depends on the
  // machine only where this limit ends the search.
  double time_limit_seconds = 10;
  // The number of events that the restart search may simulate. Beyond it a bisection of at most 12
  // replays finds a pool that serves the trace. As a rule that pool is not far above the smallest,
  // but this is not guaranteed.
  std::int64_t most_restart_steps = INT64_MAX;
  // Ends all searches with Cancelled, within thousands of events.
  std::stop_token stop = {};
};

// The reason why the exact search did not determine everything.
enum class ExactLimit {
  kNone,          // it determined everything
  kUnsearchable,  // the policy is stateful or asks for offsets, or the trace needs too many
                  // addresses
  kSteps,         // MinimumPoolOptions::most_steps
  kPieces,        // more pieces than fit into about 30 MB (`most_exact_pieces`)
  kTime,          // MinimumPoolOptions::time_limit_seconds
};

struct MinimumPoolResult {
  // The result of the papers' restart search (vDNN++, IPDPS 2019, section IV-B). It begins with the
  // peak of live bytes. An attempt that fails for a request of r bytes with a largest free block of
  // f bytes is repeated with r - f more.
  std::int64_t pool_bytes = 0;
  std::int64_t attempts = 0;
  // Whether the search stopped at `most_restart_steps`. Then `pool_bytes` is the pool that the
  // bisection found, an upper bound of the smallest, and `attempts` counts its replays.
  bool gave_up_restarts = false;
  // The smallest pool that serves the trace at all; no value when the limits ended the search
  // first.
  std::optional<std::int64_t> exact_pool_bytes;
  // Whether every larger pool serves the trace too, which is not certain: with more memory a policy
  // may choose other blocks. No value when the search did not determine it.
  std::optional<bool> serves_all_larger;
  // The first limit that was reached, when one of the two values is missing.
  ExactLimit exact_limit = ExactLimit::kNone;
  // A piece of the exact search is a set of pool sizes in which every live allocation has the same
  // offset. The most pieces that it had at a time, and the number that it keeps from one event to
  // the next: beyond it the search drops the largest pools.
  std::int64_t exact_pieces = 0;
  std::int64_t most_exact_pieces = 0;
};

// Returns the smallest pools for `trace` under `policy`. A replay verified every size in the
// result. The exact answers hold for every stateless policy, because a policy sees an arena
// only through questions. One simulation stands for all pool sizes for which the answers so far
// agree, and divides where they differ.
TIDEPOOL_EXPORT absl::StatusOr<MinimumPoolResult> MinimumPool(const Trace& trace,
                                                              PlacementPolicy& policy,
                                                              const MinimumPoolOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_SIZING_H_
