// SPDX-License-Identifier: Apache-2.0
// Adds random lists for recomputation to random chains.
#ifndef TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_RANDOM_OUTPUTS_H_
#define TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_RANDOM_OUTPUTS_H_

#include "tests/training/chain/random_chain.h"

namespace tidepool::testing {

inline void AddOutputs(RandomChains& random, Chain& chain) {
  for (const std::int64_t bytes : chain.x) chain.output.push_back(bytes * random.Below(5) / 4);
  chain.output[0] = chain.x[0];
  if (random.Below(2) == 0) {
    for (const std::int64_t bytes : chain.forward_extra) {
      chain.output_extra.push_back(bytes * random.Below(5) / 4);
    }
  }
  for (std::size_t i = 0; i < chain.forward_seconds.size(); ++i) {
    if (random.Below(6) == 0) chain.runs_once.push_back(i);
  }
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_RANDOM_OUTPUTS_H_
