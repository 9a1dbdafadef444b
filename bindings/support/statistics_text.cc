// SPDX-License-Identifier: Apache-2.0
#include "bindings/support/statistics_text.h"

#include "absl/strings/str_cat.h"

namespace tidepool::bindings {

std::string StatisticsText(const std::string& of, const PoolStats& stats) {
  return absl::StrCat(of, ": ", stats.allocations, " allocations, ", stats.frees, " frees, ",
                      stats.failures, " refused, ", stats.blocked, " waited for memory\n",
                      "  live ", stats.live_bytes, " bytes in ", stats.live_count,
                      " allocations, at most ", stats.peak_live_bytes, "; held ",
                      stats.reserved_bytes, ", at most ", stats.peak_reserved_bytes, "; budget ",
                      stats.max_bytes, "\n", "  ", stats.growths, " growths, ", stats.remaps,
                      " remaps of ", stats.remapped_bytes, " bytes together, ", stats.stream_waits,
                      " waits of streams, ", stats.event_records, " events recorded");
}

}  // namespace tidepool::bindings
