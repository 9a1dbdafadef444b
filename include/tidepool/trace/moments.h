// SPDX-License-Identifier: Apache-2.0
// Moments of a trace: the peak of each mark, and the memory that is reserved and free at an event.
//
// Sizes are rounded up to an alignment, a power of two. Functions are thread-safe.
#ifndef TIDEPOOL_TRACE_MOMENTS_H_
#define TIDEPOOL_TRACE_MOMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/composition.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// Returns the peak of live bytes while each mark is open, the highest first. A mark is open until
// its end. A mark of a name without any end is open until the next such mark. Of more than 1,000
// open marks the last ones are left out. O(events), or 1,000 times that for hostile traces.
TIDEPOOL_EXPORT std::vector<NamedBytes> PeaksByMark(const Trace& trace, std::int64_t alignment);

// A range of addresses that the recorded allocator took from the device at once.
struct SegmentUse {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  std::int64_t free_bytes = 0;
};

struct ReservedMemory {
  std::int64_t reserved_bytes = 0;
  std::int64_t live_bytes = 0;
  // Segments with free bytes, the most free bytes first; empty where addresses are unknown.
  // Adjacent segments of an allocator with expandable segments count as one.
  std::vector<SegmentUse> segments;

  std::int64_t free_bytes() const {
    return reserved_bytes > live_bytes ? reserved_bytes - live_bytes : 0;
  }
};

// Returns the reserved memory right after event `event`, and no value for a trace without
// reservations. InvalidArgument when the trace has no such event. O(events log events).
TIDEPOOL_EXPORT absl::StatusOr<std::optional<ReservedMemory>> ReservedAfter(const Trace& trace,
                                                                            std::int64_t event,
                                                                            std::int64_t alignment);

// Free memory of one pool, stream and kind of segments.
struct FreeMemory {
  std::string pool;    // "default", or the id of a private pool
  std::string stream;  // its name
  TraceSegment::Kind kind = TraceSegment::Kind::kLarge;
  std::int64_t bytes = 0;
  std::int64_t segments = 0;  // segments that have free bytes
};

// Free memory of an allocator that keeps it apart by pool and stream, as PyTorch's does: a request
// is served only from the free memory of its own pool and stream.
struct FreeParts {
  std::vector<FreeMemory> parts;  // the most bytes first
  std::int64_t reserved_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t pending_bytes = 0;  // freed by the program, and still used by other streams
  // Free bytes of other pools and streams than those of the refused request, or, without one, than
  // those that hold the most live bytes.
  std::int64_t stranded_bytes = 0;
  std::string pool;    // that of the refused request, or the one that holds the most
  std::string stream;  // likewise
  // Segments without a live block, which the allocator could give back to the device.
  std::int64_t whole_segments = 0;
  std::int64_t whole_bytes = 0;
  // The bytes that the live blocks would keep reserved at least in expandable segments:
  // their granules go back to the device one by one.
  std::int64_t expandable_bytes = 0;
};

// Returns the free memory right after event `event`, the refusal of a request or the last event; no
// value where no segments with addresses are known. Pools and kinds are those of the segments at
// the end of the recording; a segment that had gone by then counts as one of the default pool.
// InvalidArgument when the trace has no such event. O(events log events).
TIDEPOOL_EXPORT absl::StatusOr<std::optional<FreeParts>> FreeAfter(const Trace& trace,
                                                                   std::int64_t event,
                                                                   std::int64_t alignment);

// Returns "small", "large" or "expandable".
TIDEPOOL_EXPORT std::string_view SegmentKindName(TraceSegment::Kind kind);

// Whether the recorded allocator had expandable segments; no value when its settings are unknown.
TIDEPOOL_EXPORT std::optional<bool> HasExpandableSegments(const Trace& trace);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_MOMENTS_H_
