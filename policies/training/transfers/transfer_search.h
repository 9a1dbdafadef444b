// SPDX-License-Identifier: Apache-2.0
// SearchTransfers: the order and the starts of operations and copies with the least makespan.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_SEARCH_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "lib/base/budget/budget.h"
#include "policies/training/transfers/transfer_bounds.h"
#include "policies/training/transfers/transfer_problem.h"

namespace tidepool::transfers {

struct SearchLimits {
  // Partial schedules that are continued after each operation, in the order of their bounds.
  std::size_t width = 1;
  // Copies in each direction that are tried as the next one. Those of absences that end last are
  // sent first, and those of absences that end first are fetched first.
  std::size_t branching = 1;
  // Partial schedules that are kept in memory, each some hundred bytes.
  std::size_t most_states = 2'000'000;
  // Only schedules that take less time are looked for.
  double below_seconds = std::numeric_limits<double>::infinity();
  // The clock of it, or its stop, ends the search; null: nothing does.
  budget::Budget* budget = nullptr;
};

struct SearchResult {
  std::vector<TransferAction> actions;  // by start; empty: no schedule was found
  double seconds = std::numeric_limits<double>::infinity();
  // Whether no limit but `below_seconds` left a schedule out. Then none takes less than the smaller
  // of `seconds` and `below_seconds`.
  bool is_complete = false;
};

// Searches through schedules in which each datum is away in each of its absences at most once,
// forward in time. A partial schedule is a sequence of starts, each as early as possible. For given
// orders of all starts no other times are better, because every end would only be later. Take two
// with the same operations started and the same data away. The one with a device and a link that
// are free no later is as good for every continuation (dominance). No datum may end away. Time and
// memory grow with limits.width and limits.branching; without them the number of partial schedules
// is exponential in the absences.
SearchResult SearchTransfers(const TransferProblem& problem, const TransferBounds& bounds,
                             const SearchLimits& limits);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_TRANSFER_SEARCH_H_
