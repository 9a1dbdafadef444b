// SPDX-License-Identifier: Apache-2.0
// Beaumont et al., section 5.3.2: a chain in a memory of equal slots.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_SLOTS_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_SLOTS_H_

#include <cstdint>

#include "policies/training/chain/fractional_chain.h"
#include "tidepool/training/chain.h"

namespace tidepool::chain_policies {

// Returns the chain in slots of M_GPU / slots bytes, all numbers whole. exF, exB and y are rounded
// up. Partial sums of x are rounded up, and those of times down. The memory is more than 0.
FractionalChain InSlots(const Chain& chain, std::int64_t slots);

// Gives one more slot to the activation that lacks the smallest part of a slot. Returns false when
// all have enough.
bool GiveSlot(const Chain& chain, FractionalChain& in_slots);
// Rounds every size up, so that each activation has enough.
void GiveAllSlots(const Chain& chain, FractionalChain& in_slots);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_SLOTS_H_
