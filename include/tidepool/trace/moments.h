// SPDX-License-Identifier: Apache-2.0
// Moments of a trace: the peak of each mark, and the memory that is reserved and free at an event.
//
// Sizes are rounded up to an alignment, a power of two. Functions are thread-safe.
#ifndef TIDEPOOL_TRACE_MOMENTS_H_
#define TIDEPOOL_TRACE_MOMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
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

// Whether the recorded allocator had expandable segments; no value when its settings are unknown.
TIDEPOOL_EXPORT std::optional<bool> HasExpandableSegments(const Trace& trace);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_MOMENTS_H_
