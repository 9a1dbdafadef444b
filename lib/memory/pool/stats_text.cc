// SPDX-License-Identifier: Apache-2.0
// Statistics of a pool as a table for people.
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "tidepool/pool.h"

namespace tidepool {

std::string ToString(const PoolStats& stats) {
  using text::Count;
  using text::Size;
  std::string table = absl::StrCat(
      "live      ", Size(stats.live_bytes), " in ", Count(stats.live_count, "allocation"),
      ", peak ", Size(stats.peak_live_bytes), "\nreserved  ", Size(stats.reserved_bytes), ", peak ",
      Size(stats.peak_reserved_bytes), ", budget ", Size(stats.max_bytes), "\nfree      ",
      Size(stats.free_bytes), ", largest hole ", Size(stats.largest_hole_bytes), "\nrequests  ",
      Count(stats.allocations, "allocation"), ", ", Count(stats.frees, "free"), ", ",
      stats.failures, " refused, ", stats.blocked, " waited for memory\ndevice    ",
      Count(stats.growths, "growth"), ", ", Count(stats.remaps, "remap"), ", ",
      Count(stats.stream_waits, "stream wait"), ", ", Count(stats.event_records, "event"), "\n");
  if (stats.planned + stats.deviations + stats.plans > 0) {
    absl::StrAppend(&table, "planned   ", Count(stats.planned, "request"), ", ",
                    Count(stats.deviations, "deviation"), ", ", Count(stats.plans, "plan"), "\n");
  }
  return table;
}

}  // namespace tidepool
