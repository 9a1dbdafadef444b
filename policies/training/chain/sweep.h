// SPDX-License-Identifier: Apache-2.0
// Values of a parameter that a policy tries. Chains of any length are tried in bounded time.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_SWEEP_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_SWEEP_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tidepool::chain_policies {

// Returns the numbers from 0 to `last`, at most `most` of them: more are thinned out evenly, and
// both ends stay. `most` is 2 or more.
inline std::vector<std::size_t> Sweep(std::size_t last, std::size_t most) {
  const std::size_t intervals = std::min(last, most - 1);
  std::vector<std::size_t> values = {0};
  for (std::size_t k = 1; k <= intervals; ++k)
    values.push_back(last / intervals * k + last % intervals * k / intervals);
  return values;
}

// Returns how many schedules of a chain a policy makes, so that it takes about a second at most.
inline std::size_t MostSchedules(std::size_t operations) {
  constexpr std::size_t kMostSteps = 20'000'000;
  return std::max<std::size_t>(kMostSteps / operations, 16);
}

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_SWEEP_H_
