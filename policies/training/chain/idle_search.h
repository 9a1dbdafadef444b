// SPDX-License-Identifier: Apache-2.0
// Beaumont et al., Algorithm 1: the set of activations with the least idle time, when transfers may
// be interrupted.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_IDLE_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_IDLE_SEARCH_H_

#include <cstddef>
#include <optional>
#include <stop_token>
#include <vector>

#include "policies/training/chain/fractional_chain.h"

namespace tidepool::chain_policies {

struct LeastIdle {
  double idle = 0;                    // in the chain's unit
  std::vector<std::size_t> set = {};  // activations that are offloaded, ascending
  bool proved = false;                // no set has less idle time
};

// Returns the best set that is found; nothing when the chain does not fit. Work and memory are
// bounded: chains on which the search would take long get the best set of a narrower search, and
// chains of more than about 10,000 operations greedy's. At most a second or so, and 200 MiB. A stop
// ends the search with the best set so far.
std::optional<LeastIdle> FindLeastIdle(const FractionalChain& chain,
                                       const std::stop_token& stop = {});

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_IDLE_SEARCH_H_
