// SPDX-License-Identifier: Apache-2.0
// Sleepers: which regions of a trace sleep, and the errors of readers about regions.
#ifndef TIDEPOOL_LIB_TRACE_MODEL_SLEEPERS_H_
#define TIDEPOOL_LIB_TRACE_MODEL_SLEEPERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "tidepool/trace/trace.h"

namespace tidepool::trace {

// Its memory is in proportion to the largest region that ever slept.
class Sleepers {
 public:
  // False for region 0.
  bool IsAsleep(TraceRegion region) const {
    return region < pauses_.size() && pauses_[region] != kAwake;
  }
  // Notes that a region sleeps, from a pause with this index on.
  void Pause(TraceRegion region, std::uint32_t pause) {
    if (region >= pauses_.size()) pauses_.resize(std::size_t{region} + 1, kAwake);
    pauses_[region] = pause;
  }
  // Notes that a region that sleeps wakes. Returns the index of its pause.
  std::uint32_t Resume(TraceRegion region) { return std::exchange(pauses_[region], kAwake); }

 private:
  static constexpr std::uint32_t kAwake = UINT32_MAX;
  std::vector<std::uint32_t> pauses_;  // by region
};

inline std::string RegionNameError(std::size_t bytes) {
  return absl::StrCat("a region with a name of ", bytes, " bytes, expected 1 to ",
                      kMostRegionNameBytes);
}
inline std::string AsleepError(std::string_view region) {
  return absl::StrCat("region ", text::Quoted(region),
                      " sleeps, expected its resume before its next pause or allocation");
}
inline std::string AwakeError(std::string_view region) {
  return absl::StrCat("a resume of region ", text::Quoted(region), ", which does not sleep");
}

}  // namespace tidepool::trace

#endif  // TIDEPOOL_LIB_TRACE_MODEL_SLEEPERS_H_
