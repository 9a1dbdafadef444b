// SPDX-License-Identifier: Apache-2.0
// The two halves of a chain, each placed by itself, and the gap between them.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_CHAIN_HALVES_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_CHAIN_HALVES_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/chain.h"

namespace tidepool::chain {

// One half of the chain. In reversed time the backward half is like the forward half: operation i
// takes memory when it starts, gives some back when it ends, and transfers make room.
struct Half {
  std::vector<double> starts;           // of operations, in the half's own time
  std::vector<double> ends;             // of operations
  std::vector<double> transfer_starts;  // by position in the half's order of transfers
  std::vector<double> transfer_ends;
};

// Places the forward half from the start of the iteration on, or the backward half from its end, in
// reversed time. `order` has the activations in the order of the half's own time. ResourceExhausted
// for an operation that does not fit.
absl::StatusOr<Half> PlaceHalf(const Chain& chain, const std::vector<std::size_t>& order,
                               bool is_forward);

// Returns the smallest gap between F_L and B_L that keeps the link and the memory. O((L + n) log
// L).
double FindGap(const Chain& chain, const ChainTransfers& transfers, const Half& forward,
               const Half& backward);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_CHAIN_HALVES_H_
