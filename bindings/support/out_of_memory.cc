// SPDX-License-Identifier: Apache-2.0
// Chooses the help by the first limit that the request exceeds.
#include "bindings/support/out_of_memory.h"

#include "absl/strings/str_cat.h"

namespace tidepool::bindings {
namespace {

std::string Help(const Shortage& shortage) {
  const PoolStats& stats = shortage.stats;
  const std::string& raise = shortage.raise;
  if (shortage.bytes > static_cast<std::size_t>(stats.max_bytes)) {
    return raise.empty() ? "the device has no more memory" : raise;
  }
  const auto wanted = static_cast<std::int64_t>(shortage.bytes);
  const std::int64_t missing = wanted - (stats.max_bytes - stats.live_bytes);
  if (missing > 0) {
    return absl::StrCat("free ", missing, " bytes", raise.empty() ? "" : "; or ", raise);
  }
  const bool fits = wanted <= stats.max_bytes - stats.reserved_bytes;
  if (fits && shortage.has_regions && wanted <= shortage.device_free_bytes) {
    return absl::StrCat("regions hold ", shortage.region_bytes,
                        " bytes of the limit, or it keeps room for their least: free memory of a "
                        "region, pause one, or lower its least");
  }
  if (fits) {
    return absl::StrCat(shortage.owner, " has ", shortage.device_free_bytes,
                        " bytes of the device left");
  }
  return absl::StrCat(
      "enough is free, but no hole is large enough: free a neighbour of the largest hole",
      shortage.remap.empty() ? "" : ", or ", shortage.remap);
}

}  // namespace

std::string OutOfMemoryText(const Shortage& shortage) {
  const PoolStats& stats = shortage.stats;
  std::string text = absl::StrCat(shortage.bytes, " bytes asked for, ");
  if (shortage.waited > absl::ZeroDuration()) {
    absl::StrAppend(&text, "waited for them ", absl::FormatDuration(shortage.waited), " (",
                    shortage.wait, "), ");
  }
  absl::StrAppend(&text, stats.live_bytes, " live in ", stats.live_count,
                  " allocations, the largest hole is ", stats.largest_hole_bytes, ", the limit of ",
                  shortage.device, " is ", stats.max_bytes, ": ", Help(shortage));
  return text;
}

}  // namespace tidepool::bindings
