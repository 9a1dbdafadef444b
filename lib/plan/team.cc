#include "lib/plan/team.h"

#include <algorithm>

#include "lib/plan/side_by_side.h"

namespace tidepool::plan {
namespace {

constexpr std::uint64_t kSeedsApart = 0x9E3779B97F4A7C15U;

}  // namespace

Team::Team(const Instance& instance, std::uint64_t seed, std::size_t threads, Deadline& deadline)
    : seed_(seed),
      threads_(threads),
      deadline_(deadline),
      first_(instance, seed, deadline),
      lower_bound_(first_.lower_bound()),
      lower_bound_alone_(first_.lower_bound()) {}

void Team::TryHeuristics(std::int64_t enough) { first_.TryHeuristics(enough, threads_); }

void Team::AddHelpers() {
  while (helpers_.size() + 1 < threads_) {
    const std::uint64_t variant = helpers_.size() + 1;
    helpers_.emplace_back(first_, seed_ + variant * kSeedsApart, variant,
                          deadlines_.emplace_back(deadline_));
  }
}

bool Team::SearchRound(std::int64_t enough, std::int64_t enough_alone) {
  if (threads_ == 1) {
    const bool goes_on = first_.SearchRound(enough);
    lower_bound_ = lower_bound_alone_ = first_.lower_bound();
    return goes_on;
  }
  AddHelpers();
  for (Minimizer& helper : helpers_) helper.Learn(offsets(), height(), lower_bound_);
  Race race;
  std::vector<Finish> finishes(threads_);
  bool goes_on = true;
  SideBySide(threads_, [&](std::size_t index) {
    DeadlineOf(index).Enter(&race);
    const bool more = Member(index).SearchRound(index == 0 ? enough_alone : enough);
    if (index == 0) goes_on = more;
    finishes[index] = {Member(index).height() <= std::max(Member(index).lower_bound(), enough),
                       DeadlineOf(index).looks()};
    if (finishes[index].reached) race.Reach(finishes[index].looks);
  });
  // The first one's is that of all teams.
  deadline_.Enter(nullptr);
  if (race.IsWon()) {
    TakeWinner(finishes);
  } else {
    TakeBest();
  }
  return goes_on;
}

// What the others found while they were still at it counts for nothing: that is a matter of time.
void Team::TakeWinner(const std::vector<Finish>& finishes) {
  std::size_t winner = threads_;
  for (std::size_t i = 0; i < threads_; ++i) {
    if (!finishes[i].reached) continue;
    if (winner == threads_ || finishes[i].looks < finishes[winner].looks) winner = i;
  }
  best_ = &Member(winner);
  lower_bound_ = std::max(lower_bound_, best_->lower_bound());
}

void Team::TakeBest() {
  best_ = &first_;
  for (const Minimizer& helper : helpers_) {
    if (helper.height() < best_->height()) best_ = &helper;
    lower_bound_ = std::max(lower_bound_, helper.lower_bound());
  }
  lower_bound_alone_ = first_.lower_bound();
  lower_bound_ = std::max(lower_bound_, lower_bound_alone_);
}

}  // namespace tidepool::plan
