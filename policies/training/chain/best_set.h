// SPDX-License-Identifier: Apache-2.0
// Keeps the fastest of several sets of activations.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_BEST_SET_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_BEST_SET_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "policies/training/chain/transfer_schedule.h"
#include "tidepool/training/chain.h"

namespace tidepool::chain_policies {

// Not thread-safe.
class BestSet {
 public:
  explicit BestSet(const Chain& chain) : chain_(chain) {}

  // Keeps the set if it fits and is faster than those before. Returns its seconds; infinite for a
  // set that does not fit.
  double Try(const std::vector<std::size_t>& set) {
    const double seconds =
        OrderedMakespan(chain_, set).value_or(std::numeric_limits<double>::infinity());
    if (seconds < seconds_) {
      seconds_ = seconds;
      set_ = set;
    }
    return seconds;
  }

  // Returns the schedule of the fastest set; ResourceExhausted when no set fits.
  absl::StatusOr<ChainSchedule> Schedule() const { return ScheduleSet(chain_, set_); }

 private:
  const Chain& chain_;
  std::vector<std::size_t> set_;
  double seconds_ = std::numeric_limits<double>::infinity();
};

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_BEST_SET_H_
