// Minimizers that search one instance side by side.
//
// In each round all of them search, and the best plan counts. The first one does what it would do
// alone and learns nothing of the others, so that a team's plan is never higher than its; the
// others begin each round with the best plan and bound of all. What a round gives does not depend
// on which thread is fast: a round is won by who reached its goal in the fewest looks at the
// deadline, and the others go on until they have had as many.
#ifndef TIDEPOOL_LIB_PLAN_TEAM_H_
#define TIDEPOOL_LIB_PLAN_TEAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "lib/plan/budget.h"
#include "lib/plan/instance.h"
#include "lib/plan/minimizer.h"

namespace tidepool::plan {

// All heights are in the instance's units. Not thread-safe.
class Team {
 public:
  // Makes the first plan. The instance and the deadline must outlive the team.
  Team(const Instance& instance, std::uint64_t seed, std::size_t threads, Deadline& deadline);

  // Makes plans by the other heuristics until one is no higher than `enough`.
  void TryHeuristics(std::int64_t enough);
  // Searches for plans that are lower, down to `enough`; `enough_alone` is what the first minimizer
  // would know to be enough without the others of any team. False when it has given up.
  bool SearchRound(std::int64_t enough, std::int64_t enough_alone);

  const Offsets& offsets() const { return best_ == nullptr ? first_.offsets() : best_->offsets(); }
  std::int64_t height() const { return best_ == nullptr ? first_.height() : best_->height(); }
  // No plan is below it.
  std::int64_t lower_bound() const { return lower_bound_; }
  // What the first minimizer proved of it, but for a round that another has won.
  std::int64_t lower_bound_alone() const { return lower_bound_alone_; }
  const Instance& instance() const { return first_.instance(); }

 private:
  // Who reached the goal in a round, and by when.
  struct Finish {
    bool reached = false;
    std::int64_t looks = 0;
  };

  void AddHelpers();
  Minimizer& Member(std::size_t index) { return index == 0 ? first_ : helpers_[index - 1]; }
  Deadline& DeadlineOf(std::size_t index) { return index == 0 ? deadline_ : deadlines_[index - 1]; }
  void TakeWinner(const std::vector<Finish>& finishes);
  void TakeBest();

  const std::uint64_t seed_;
  const std::size_t threads_;
  Deadline& deadline_;
  Minimizer first_;
  std::deque<Deadline> deadlines_;  // one a helper
  std::deque<Minimizer> helpers_;
  const Minimizer* best_ = nullptr;  // the first one as long as there is none
  std::int64_t lower_bound_;
  std::int64_t lower_bound_alone_;
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_TEAM_H_
