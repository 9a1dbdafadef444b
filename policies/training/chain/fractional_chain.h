// SPDX-License-Identifier: Apache-2.0
// Beaumont et al., section 5: a chain with transfers that may be interrupted: bytes leave and
// arrive one by one. The recurrences (1) to (10), with the corrections that docs/design names.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_FRACTIONAL_CHAIN_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_FRACTIONAL_CHAIN_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "tidepool/training/chain.h"

namespace tidepool::chain_policies {

// A chain in which times are the bytes that the link transfers meanwhile. Numbers are bytes or
// slots.
struct FractionalChain {
  std::vector<double> forward;         // uF times beta
  std::vector<double> backward;        // uB times beta
  std::vector<double> forward_extra;   // exF
  std::vector<double> backward_extra;  // exB
  std::vector<double> x;
  std::vector<double> y;
  double memory = 0;

  std::size_t operations() const { return forward.size(); }
};

FractionalChain ToFractional(const Chain& chain);

// The state between the operations i - 1 and i, on both sides: after F_(i-1), and before B_(i-1).
struct FractionalState {
  // M_F - Delta_F^+: bytes of x_i, and of those before it that stay.
  double resident = 0;
  // Delta_F: bytes that are offloaded after F_(i-1); negative: the link has been idle for so long.
  double to_offload = 0;
  // Delta_B: bytes of x_0, ..., x_(i-1) that are prefetched before B_(i-1); negative: the link is
  // idle for so long before B_(i-1).
  double prefetched = 0;
  double idle = 0;  // of the operations 0 to i - 1, on both sides
};

// Returns the state before operation 0.
inline FractionalState FirstState(const FractionalChain& chain) { return {.resident = chain.x[0]}; }

// Returns the state after F_i and before B_i, of which the idle time counts both; nothing where one
// of them does not fit. `moved` are the bytes of x_i that are offloaded, of 0 to x_i; nothing when
// x_i stays, and the link's idle time goes on.
std::optional<FractionalState> Advance(const FractionalChain& chain, std::size_t i,
                                       const FractionalState& state, std::optional<double> moved);

// Returns all idle time of a state after operation L: its own, and the gap between F_L and B_L.
// O(L).
double IdleAtEnd(const FractionalChain& chain, const FractionalState& state);

// Returns the idle time of a chain of which `moved[i]` bytes of x_i are offloaded; nothing when it
// does not fit. O(L).
std::optional<double> FractionalIdle(const FractionalChain& chain,
                                     const std::vector<std::optional<double>>& moved);

// Theorem 2: the best schedule when activations may be offloaded in part is eager.
class EagerBound {
 public:
  // O(L).
  explicit EagerBound(const FractionalChain& chain);

  // Returns the bytes of x_i, x_(i+1) and so on that have to be offloaded from a state before
  // operation i on. O(1).
  double Excess(std::size_t i, const FractionalState& state) const;
  // Returns the idle time when exactly these bytes leave, the first activations first, the last of
  // them in part. No set of activations from x_i on, and no part of them, has less idle time after
  // that state. Nothing where the rest does not fit, or the idle time reaches `limit`. O(L).
  std::optional<double> Idle(std::size_t i, const FractionalState& state, double limit) const;

 private:
  const FractionalChain& chain_;
  // The most bytes that any operation from i on needs beyond those before x_(i+1).
  std::vector<double> largest_;
};

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_FRACTIONAL_CHAIN_H_
