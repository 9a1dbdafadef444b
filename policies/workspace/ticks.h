// SPDX-License-Identifier: Apache-2.0
// Times as whole numbers, so that equal sums are equal in any order of their terms.
#ifndef TIDEPOOL_POLICIES_WORKSPACE_TICKS_H_
#define TIDEPOOL_POLICIES_WORKSPACE_TICKS_H_

#include <cmath>
#include <cstdint>

namespace tidepool::workspace {

class Ticks {
 public:
  // Above all sums.
  static constexpr std::int64_t kNever = std::int64_t{1} << 62;

  // Chooses the finest power of two in which sums of up to `most_seconds` stay below kNever.
  explicit Ticks(double most_seconds)
      : shift_(most_seconds > 0 ? 60 - std::ilogb(most_seconds) : 0) {}

  std::int64_t Of(double seconds) const { return std::llround(std::ldexp(seconds, shift_)); }

 private:
  int shift_;
};

}  // namespace tidepool::workspace

#endif  // TIDEPOOL_POLICIES_WORKSPACE_TICKS_H_
