// SPDX-License-Identifier: Apache-2.0
// The kinds of iterations that the policy `best` searches, and the work that each gets.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_ITERATION_KIND_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_ITERATION_KIND_H_

#include <cstdint>
#include <vector>

namespace tidepool::search {

// The choices that a search of iterations has.
struct IterationKind {
  bool recomputes = false;  // tasks may run again
  bool in_parts = false;    // data leaves in parts
  bool repeats = false;     // all micro-batches do the same

  // Whether it has all choices of another kind.
  bool Includes(const IterationKind& other) const {
    return recomputes >= other.recomputes && in_parts >= other.in_parts && repeats <= other.repeats;
  }

  friend bool operator==(const IterationKind&, const IterationKind&) = default;
};

// The parts of a round's work that a kind gets.
struct WorkShares {
  double lead = 0;     // of the search for the lead
  double reserve = 0;  // of the lead with memory in reserve, and of its plans of addresses
  double repair = 0;   // of repairs of a lead with a plan that does not fit

  double OfPlans() const { return reserve + repair; }
  double Sum() const { return lead + OfPlans(); }
  WorkShares Half() const {
    return {.lead = lead / 2, .reserve = reserve / 2, .repair = repair / 2};
  }
};

struct SharedKind {
  IterationKind kind;
  WorkShares shares;
};

// Returns the kinds in the order of their search. The shares of all that do not repeat add up to 1.
// Parts that stay fragment the addresses, so iterations of whole data get more of the work.
// Iterations that repeat a micro-batch get half as much, before those of all tasks: in large graphs
// the time may end first.
inline std::vector<SharedKind> KindsToSearch(bool with_repeating) {
  constexpr WorkShares kInParts = {.lead = 0.04, .reserve = 0.02};
  std::vector<SharedKind> kinds;
  const auto add = [&](bool recomputes, const WorkShares& whole) {
    if (with_repeating) kinds.push_back({{recomputes, false, true}, whole.Half()});
    kinds.push_back({{.recomputes = recomputes}, whole});
    kinds.push_back({{.recomputes = recomputes, .in_parts = true}, kInParts});
  };
  add(/*recomputes=*/true, {.lead = 0.28, .reserve = 0.08, .repair = 0.2});
  add(/*recomputes=*/false, {.lead = 0.12, .reserve = 0.04, .repair = 0.16});
  return kinds;
}

// Work of a search, and the seed of its random choices.
struct Effort {
  double work_seconds = 0;  // of a usual core
  std::uint64_t seed = 1;

  Effort Part(double share) const { return {work_seconds * share, seed}; }
};

// The work that is left to a search with several steps.
class WorkLeft {
 public:
  explicit WorkLeft(double seconds) : seconds_(seconds) {}

  bool HasEnded() const { return seconds_ < kNoWork; }
  // Takes the work of a step. Returns false, and ends the search, if less is left: a step with a
  // part of its work could find an answer that the whole step of a longer limit misses.
  bool Take(double seconds) {
    const bool is_left = seconds <= seconds_ + kNoWork;
    seconds_ = is_left ? seconds_ - seconds : 0;
    return is_left;
  }

 private:
  // Rounding of the differences of up to an hour of work is less, and a step takes more.
  static constexpr double kNoWork = 1e-9;

  double seconds_;  // of a usual core
};

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_ITERATION_KIND_H_
