// SPDX-License-Identifier: Apache-2.0
// Measures the load of a trace: live bytes and reserved bytes over its events.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/blocks/geometry.h"
#include "tidepool/trace/sizing.h"

namespace tidepool {

absl::StatusOr<TraceLoad> MeasureLoad(const Trace& trace, std::int64_t alignment) {
  constexpr std::int64_t kLargestAlignment = std::int64_t{1} << 30;
  if (alignment < 1 || alignment > kLargestAlignment || (alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alignment ", alignment, ", expected a power of two up to ", kLargestAlignment));
  }
  const std::int64_t most = blocks::MaxArenaBytes(alignment);
  TraceLoad load;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (!event.TouchesMemory()) continue;
    const std::int64_t bytes = AlignUp(trace.allocations[event.index].bytes, alignment);
    if (event.kind == TraceEvent::Kind::kFree) {
      load.unfreed_bytes -= bytes;
      --load.unfreed_count;
      continue;
    }
    load.unfreed_bytes += bytes;
    ++load.unfreed_count;
    load.peak_live_count = std::max(load.peak_live_count, load.unfreed_count);
    if (load.unfreed_bytes > most) {
      return absl::InvalidArgumentError(absl::StrCat(
          "more than ", text::ExactSize(most), " are live at event ", i,
          ", expected at most the bytes that an arena can address at alignment ", alignment));
    }
    if (load.unfreed_bytes > load.peak_live_bytes) {
      load.peak_live_bytes = load.unfreed_bytes;
      load.peak_event = static_cast<std::int64_t>(i);
    }
  }
  return load;
}

namespace {

std::int64_t Sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? INT64_MIN : INT64_MAX;
}

}  // namespace

std::optional<ReservedLoad> MeasureReserved(const Trace& trace) {
  if (trace.reservations.empty()) return std::nullopt;
  ReservedLoad load;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    if (event.kind != TraceEvent::Kind::kReserve) continue;
    load.reserved_bytes = Sum(load.reserved_bytes, trace.reservations[event.index].bytes);
    if (load.reserved_bytes <= load.peak_reserved_bytes) continue;
    load.peak_reserved_bytes = load.reserved_bytes;
    load.peak_event = static_cast<std::int64_t>(i);
  }
  return load;
}

}  // namespace tidepool
