// SPDX-License-Identifier: Apache-2.0
// Statistics of a pool as a table for people.
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/text/sizes.h"
#include "tidepool/pool.h"

namespace tidepool {

std::string ToString(const PoolStats& stats) {
  using text::Size;
  std::string table = absl::StrCat(
      "live      ", Size(stats.live_bytes), " in ", stats.live_count, " allocations, peak ",
      Size(stats.peak_live_bytes), "\nreserved  ", Size(stats.reserved_bytes), ", peak ",
      Size(stats.peak_reserved_bytes), ", budget ", Size(stats.max_bytes), "\nfree      ",
      Size(stats.free_bytes), ", largest hole ", Size(stats.largest_hole_bytes), "\nrequests  ",
      stats.allocations, " allocations, ", stats.frees, " frees, ", stats.failures, " refused, ",
      stats.blocked, " waited for memory\ndevice    ", stats.growths, " growths, ", stats.remaps,
      " remaps, ", stats.stream_waits, " waits of streams, ", stats.event_records, " events\n");
  if (stats.planned + stats.deviations + stats.plans > 0) {
    absl::StrAppend(&table, "planned   ", stats.planned, " requests, ", stats.deviations,
                    " deviations, ", stats.plans, " plans\n");
  }
  return table;
}

}  // namespace tidepool
