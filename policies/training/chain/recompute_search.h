// SPDX-License-Identifier: Apache-2.0
// The exact search for the fastest iteration that recomputes and transfers nothing.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "lib/base/budget/budget.h"
#include "policies/training/chain/recompute_model.h"

namespace tidepool::chain_policies {

// Longer chains have states that do not fit into a number.
inline constexpr std::size_t kMostSearchedOperations = 28;

struct RecomputeSearch {
  // The actions of the fastest iteration; empty when none below the limit was found.
  ChainActions actions;
  double seconds = std::numeric_limits<double>::infinity();
  // No iteration is faster than this, or than the limit if that is less.
  double lower_bound = 0;
  bool is_complete = false;  // the search ended before its limit of states and its last moment
};

// Searches states (the activations on the device, the next backward operation) in the order of
// their times plus a lower bound of the time left (A*, Hart, Nilsson and Raphael, 1968). Looks only
// for iterations faster than `seconds`, and ends when it knows more than `most_states` or at
// the end of `budget`. The chain has at most kMostSearchedOperations. O(states (L + log states)).
RecomputeSearch SearchRecomputation(const RecomputeModel& model, double seconds,
                                    std::size_t most_states, budget::Budget* budget = nullptr);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_RECOMPUTE_SEARCH_H_
