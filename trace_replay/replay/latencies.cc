// SPDX-License-Identifier: Apache-2.0
// Percentiles by selection, without a full sort.
#include "trace_replay/replay/latencies.h"

#include <algorithm>

namespace tidepool::tool {

std::optional<LatencySummary> Latencies::Summarize() {
  if (nanoseconds_.empty()) return std::nullopt;
  return LatencySummary{.median_ns = AtRank(50), .p99_ns = AtRank(99)};
}

// Returns the smallest latency that at least `percent` % of all latencies do not exceed.
std::uint32_t Latencies::AtRank(std::size_t percent) {
  const std::size_t rank = (nanoseconds_.size() * percent + 99) / 100;
  const auto at = nanoseconds_.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
  std::nth_element(nanoseconds_.begin(), at, nanoseconds_.end());
  return *at;
}

}  // namespace tidepool::tool
