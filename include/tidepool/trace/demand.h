// SPDX-License-Identifier: Apache-2.0
// The demand of a trace: the bytes that serve all its requests, also those that its allocator
// refused.
//
// Sizes are rounded up to an alignment, as in sizing.h. Functions are thread-safe.
#ifndef TIDEPOOL_TRACE_DEMAND_H_
#define TIDEPOOL_TRACE_DEMAND_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

// A request that the recorded allocator refused.
struct RefusedRequest {
  std::int64_t bytes = 0;       // as requested, not aligned
  std::int64_t live_bytes = 0;  // aligned bytes of the allocations live at the refusal
  std::int64_t event = 0;       // the index of the refusal's event
  TraceTag tag = 0;             // the stack of the request
  // Bytes that the device had free then; no value when unknown.
  std::optional<std::int64_t> device_free_bytes;
};

struct TraceDemand {
  std::int64_t peak_live_bytes = 0;  // aligned
  // The peak of live bytes, or the bytes live at a refusal plus the refused ones (aligned),
  // whichever is more; at most 2^63 - 1. No allocator serves the trace with less.
  std::int64_t needs_bytes = 0;
  std::vector<RefusedRequest> refused;  // in the order of events
};

// Returns MeasureLoad's errors. O(events).
TIDEPOOL_EXPORT absl::StatusOr<TraceDemand> MeasureDemand(const Trace& trace,
                                                          std::int64_t alignment);

// Returns the trace in which each refused request was served and freed at once. Its peak of live
// bytes is the `needs_bytes` of `trace`. The id of such an allocation is "refused request N", with
// N from 0. Requests of 0 bytes stay refused. Returns InvalidArgument for a refused request of more
// than kMaxRequestBytes, which no pool serves. O(events).
TIDEPOOL_EXPORT absl::StatusOr<Trace> WithRefusedRequests(const Trace& trace);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_DEMAND_H_
