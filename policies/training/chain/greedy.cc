// SPDX-License-Identifier: Apache-2.0
// The greedy policy: Theorem 2's fractional optimum, rounded up to whole activations.
#include <cstdint>
#include <vector>

#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/transfer_schedule.h"

namespace tidepool::chain_policies {

absl::StatusOr<ChainSchedule> MakeGreedy(const Chain& chain,
                                         const ChainPolicyOptions& /*options*/) {
  std::vector<std::size_t> set;
  for (std::int64_t left = ChainPeak(chain) - chain.memory_bytes; left > 0;) {
    left -= chain.x[set.size()];
    set.push_back(set.size());
  }
  return ScheduleSet(chain, set);
}

}  // namespace tidepool::chain_policies
