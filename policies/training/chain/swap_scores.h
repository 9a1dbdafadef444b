// SPDX-License-Identifier: Apache-2.0
// The four scores of AutoSwap: Zhang et al., "Efficient memory management for GPU-based deep
// learning systems", arXiv 1903.06631, as its public code computes them.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_SWAP_SCORES_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_SWAP_SCORES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidepool/training/chain.h"

namespace tidepool::chain_policies {

// The scores of an activation, higher for those that should leave first:
// 0. DOA, the duration of absence: seconds between its two uses, less those of both transfers.
// 1. AOA, the area of absence: DOA times bytes; a negative DOA divided by bytes.
// 2. WDOA, the weighted duration of absence: the bytes above the memory, summed over the operations
//    between its two uses.
// 3. SWDOA, the submodular WDOA: WDOA without the activations that were chosen before by this
// score.
using SwapScores = std::array<double, 4>;

// Returns the scores of x_0, ..., x_L. Each score is scaled so that its largest absolute value
// is 1. O(L^2), and O(L log L) for chains of more than 10,000 operations: their SWDOA is WDOA.
std::vector<SwapScores> ScoresOf(const Chain& chain);

// Returns the bytes above the memory of all operations in the order in which they run, F_0 to B_0;
// negative where memory is free. O(L).
std::vector<std::int64_t> BytesAboveMemory(const Chain& chain);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_SWAP_SCORES_H_
