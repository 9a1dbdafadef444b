// SPDX-License-Identifier: Apache-2.0
// Chooses the absences in which data is away.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_AWAY_SET_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_AWAY_SET_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "policies/training/transfers/transfer_problem.h"

namespace tidepool::transfers {

// Returns a set with which all operations fit, if there is one. Takes the absences with the latest
// next use first, each if an operation in it does not fit yet. It is the eager set of Beaumont et
// al., "Optimal GPU-CPU Offloading Strategies for Deep Neural Network Training", section 4, for any
// problem. Data at home on the device is taken last. O(operations + absences).
std::vector<bool> EagerSet(const TransferProblem& problem);

// Adds absences to a set in the order of EagerSet until all operations fit, where they can.
// O(operations + absences).
void AddUntilFits(const TransferProblem& problem, std::vector<bool>& set);

// Does the same, and then takes back those without which they still fit, in the opposite order.
// O((operations + absences) log operations).
void FitSet(const TransferProblem& problem, std::vector<bool>& set);

// Returns whether a search goes on. A search asks after each schedule that it tried, with the
// number of its operations and absences as the steps of the try.
using GoOn = std::function<bool(std::size_t steps)>;

// Returns the steps of searches in these seconds of work of a usual core.
constexpr double StepsIn(double work_seconds) { return 12e6 * work_seconds; }

// Improves `set` by simulated annealing with the dispatcher (Kirkpatrick, Gelatt and Vecchi,
// Science 220, 1983) in rounds: absences are added, removed or exchanged at random. Later rounds
// begin with one of the largest absences changed (Lourenco, Martin and Stutzle, "Iterated Local
// Search", Handbook of Metaheuristics, 2003). Ends at `bound` seconds, which no set can beat.
// Returns the makespan of `set`, infinity when no set was found that fits. The same seed and
// answers of `go_on` give the same set.
double ImproveSet(const TransferProblem& problem, double bound, std::uint64_t seed,
                  const GoOn& go_on, std::vector<bool>& set);

// Changes `set` at random, up to `tries` times from the same set, until its makespan is less than
// `seconds`. Returns whether a change was.
bool ChangeForLess(const TransferProblem& problem, double seconds, int tries, std::uint64_t seed,
                   std::vector<bool>& set);

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_AWAY_SET_H_
