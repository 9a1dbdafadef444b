// Sizing: how large a pool a trace needs, under a placement policy and under any.
//
// Sizes are rounded up to `alignment`, a power of two, and so are pools. Everything here is
// placement alone: no memory is touched. Functions are thread-safe as long as no two share a
// policy.
#ifndef TIDEPOOL_TRACE_SIZING_H_
#define TIDEPOOL_TRACE_SIZING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// What a trace asks of any pool.
struct TraceLoad {
  std::int64_t peak_live_bytes = 0;  // the lower bound of every pool: aligned sizes
  std::int64_t peak_event = 0;       // the index of the event that reaches it first
  std::int64_t peak_live_count = 0;  // the most allocations live at a time
  std::int64_t unfreed_count = 0;    // live at the end
  std::int64_t unfreed_bytes = 0;    // the same in aligned bytes
};

// InvalidArgument when `alignment` is no power of two up to 1 GiB, or when what is live exceeds the
// 2^44 granules that an arena can address (8 PiB at 512 bytes). O(events).
TIDEPOOL_EXPORT absl::StatusOr<TraceLoad> MeasureLoad(const Trace& trace, std::int64_t alignment);

// What the recorded allocator itself had taken from its device.
struct ReservedLoad {
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t peak_event = 0;      // the index of the event that reaches it first
  std::int64_t reserved_bytes = 0;  // at the end
};

// Nothing when the trace says nothing of reservations. Sums beyond 64 bits stay at their limits.
// O(events).
TIDEPOOL_EXPORT std::optional<ReservedLoad> MeasureReserved(const Trace& trace);

struct ReplayOptions {
  std::int64_t pool_bytes = 0;  // cut to a multiple of `alignment`
  std::int64_t alignment = 512;
  bool stop_at_refusal = false;  // otherwise a refused allocation is left out, and so is its free
  bool keep_offsets = false;
};

struct ReplayResult {
  std::int64_t refused = 0;  // allocations that the pool could not serve
  std::int64_t first_refused_event = -1;
  std::int64_t first_refused_bytes = 0;  // aligned
  std::int64_t largest_free_bytes = 0;   // at the first refusal
  std::int64_t high_water_bytes = 0;     // the highest end of any block
  std::int64_t peak_live_bytes = 0;
  std::vector<std::int64_t> offsets;  // one an allocation, -1 = refused; empty unless asked for
};

// Serves `trace` from one arena under `policy`. Errors are MeasureLoad's, and InvalidArgument for a
// pool that is negative or larger than an arena can be. O(events log blocks).
TIDEPOOL_EXPORT absl::StatusOr<ReplayResult> Replay(const Trace& trace, PlacementPolicy& policy,
                                                    const ReplayOptions& options);

struct MinimumPoolOptions {
  std::int64_t alignment = 512;
  // How many events the exact search may simulate, over all its pieces (below). What it takes to
  // divide a piece counts as events, too. The default takes about a second.
  std::int64_t most_steps = 3'000'000;
  // How many places of live allocations the exact search may keep from one event to the next, over
  // all its pieces. A piece is a set of pool sizes in which everything live has the same place, and
  // has as many places as allocations are live at the peak. Beyond that the largest pools are given
  // up; the smallest piece is always kept. A place takes 50 to 100 bytes, for a moment twice that.
  std::int64_t most_places = 300'000;
  // How long the exact search may take, from the end of the restart search on; infinity is allowed.
  // It guards against traces for which `most_steps` takes long. An answer depends on the machine
  // only where this limit is the one that strikes.
  double time_limit_seconds = 10;
  // How many events the restart search may simulate. Beyond them it is given up, and a pool that
  // serves the trace is found by bisection: by at most 12 replays, so that it is not far above the
  // smallest as a rule, and no more is promised.
  std::int64_t most_restart_steps = INT64_MAX;
};

// Why the exact search determined less than everything.
enum class ExactLimit {
  kNone,          // it determined everything
  kUnsearchable,  // the policy has memory or asks for offsets, or the trace needs too many
                  // addresses
  kSteps,         // MinimumPoolOptions::most_steps
  kPieces,        // MinimumPoolOptions::most_places
  kTime,          // MinimumPoolOptions::time_limit_seconds
};

struct MinimumPoolResult {
  // The papers' restart search (vDNN++, IPDPS 2019, section IV-B): from the peak of live bytes on,
  // each attempt that fails for a request of r bytes with a largest free block of f starts again
  // with r - f more.
  std::int64_t pool_bytes = 0;
  std::int64_t attempts = 0;
  // Whether the search was given up at `most_restart_steps`. Then `pool_bytes` is the pool that
  // the bisection found, an upper bound of the smallest, and `attempts` counts its replays.
  bool gave_up_restarts = false;
  // The smallest pool that serves the trace at all; nothing when it was not determined within the
  // limits.
  std::optional<std::int64_t> exact_pool_bytes;
  // Whether every larger pool serves it too, which is not a matter of course: with more memory a
  // policy may choose other blocks. Nothing when that was not determined.
  std::optional<bool> serves_all_larger;
  // The first limit that struck, when one of the two is missing.
  ExactLimit exact_limit = ExactLimit::kNone;
  // The most pieces that the exact search had at a time, before any were given up, and how many it
  // might have kept by `most_places`.
  std::int64_t exact_pieces = 0;
  std::int64_t most_exact_pieces = 0;
};

// The smallest pools for `trace` under `policy`. Every size in the result was verified by a replay.
// The exact answers hold for every policy without memory, because a policy sees an arena only
// through questions: one simulation stands for all pool sizes for which the answers so far agree,
// and divides where they differ.
TIDEPOOL_EXPORT absl::StatusOr<MinimumPoolResult> MinimumPool(const Trace& trace,
                                                              PlacementPolicy& policy,
                                                              const MinimumPoolOptions& options);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_SIZING_H_
