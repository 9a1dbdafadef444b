// SPDX-License-Identifier: Apache-2.0
// A state has two bits an activation, and five for the number of backward operations left. Data is
// dropped only when an operation that is ready lacks memory, because any earlier drop can wait.
#include "policies/training/chain/recompute_search.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lib/base/arithmetic.h"

namespace tidepool::chain_policies {
namespace {

using State = std::uint64_t;

// The part of an activation that is on the device.
enum Part : std::uint8_t { kNothing, kOutput, kAll };

constexpr int kLeftBits = 5;
static_assert(2 * (kMostSearchedOperations + 1) + kLeftBits <= 64);

Part PartOf(State state, std::size_t i) {
  return static_cast<Part>(state >> (kLeftBits + 2 * i) & 3);
}
State With(State state, std::size_t i, Part part) {
  const std::size_t shift = kLeftBits + 2 * i;
  return (state & ~(State{3} << shift)) | (State{part} << shift);
}
std::size_t LeftOf(State state) { return state & ((1 << kLeftBits) - 1); }

// The way to a state.
struct Visit {
  double seconds = 0;
  State before = 0;
  ChainStep step;
  bool is_done = false;
};

struct Candidate {
  double bound = 0;    // of the whole iteration
  double seconds = 0;  // until the state
  State state = 0;

  // The most urgent candidate is the last: the lowest bound, and of equal ones the longest way.
  bool operator<(const Candidate& other) const {
    return std::tie(other.bound, seconds, other.state) < std::tie(bound, other.seconds, state);
  }
};

class Searcher {
 public:
  Searcher(const RecomputeModel& model, double limit, std::size_t most_states,
           budget::Budget* budget)
      : model_(model),
        limit_(limit * (1 - kEqualSeconds)),
        most_states_(most_states),
        budget_(budget),
        reruns_(LeastRerunSeconds(model)) {}

  RecomputeSearch Search();

 private:
  std::int64_t BytesOf(State state, std::size_t i) const;
  std::int64_t FreeBytes(State state) const;
  double SecondsLeft(State state) const;
  void Expand(State state);
  void TryBackward(std::size_t i, std::int64_t free);
  void TryForward(std::size_t i, Part part, std::int64_t free);
  void TryDrops();
  void Reach(State next, double seconds, ChainStep step);
  ChainActions ActionsTo(State state) const;

  const RecomputeModel& model_;
  const double limit_;
  const std::size_t most_states_;
  budget::Budget* const budget_;      // null: none
  const std::vector<double> reruns_;  // after B_k
  absl::flat_hash_map<State, Visit> visits_;
  std::priority_queue<Candidate> queue_;
  State state_ = 0;  // that is expanded
  double seconds_ = 0;
  bool lacks_memory_ = false;
};

std::int64_t Searcher::BytesOf(State state, std::size_t i) const {
  const Part part = PartOf(state, i);
  return part == kAll ? model_.x(i) : part == kOutput ? model_.output(i) : 0;
}

// Returns the free bytes, with the gradient that the next backward operation reads.
std::int64_t Searcher::FreeBytes(State state) const {
  const std::size_t left = LeftOf(state);
  std::int64_t free = model_.chain().memory_bytes - model_.GradientBytes(left - 1);
  for (std::size_t i = 0; i <= left; ++i) free -= BytesOf(state, i);
  return free;
}

// Returns a lower bound of the seconds left. For each k, activations above k that are missing are
// made before B_k, and those that do not fit beside B_k after it.
double Searcher::SecondsLeft(State state) const {
  const std::size_t left = LeftOf(state);
  double backward = 0;
  double forward = 0;
  double most = 0;
  for (std::size_t k = left; k-- > 0;) {
    backward += model_.backward_seconds(k);
    if (PartOf(state, k + 1) != kAll) forward += model_.forward_seconds(k);
    most = std::max(most, forward + reruns_[k]);
  }
  return backward + std::max(most, forward);
}

void Searcher::Reach(State next, double seconds, ChainStep step) {
  const auto [visit, is_new] = visits_.try_emplace(next);
  if (!is_new && (visit->second.is_done || visit->second.seconds <= seconds)) return;
  const double bound = seconds + SecondsLeft(next);
  visit->second = {seconds, state_, step, false};
  if (bound < limit_) queue_.push({bound, seconds, next});
}

void Searcher::TryBackward(std::size_t i, std::int64_t free) {
  if (PartOf(state_, i) == kNothing || PartOf(state_, i + 1) != kAll) return;
  const std::int64_t bytes = model_.BackwardBytes(i) - model_.GradientBytes(i);
  if (bytes > free) {
    lacks_memory_ = true;
    return;
  }
  // B_i gives x_(i+1) back.
  const State next = With(state_, i + 1, kNothing) - 1;
  Reach(next, seconds_ + model_.backward_seconds(i), {ChainAction::kBackward, i});
}

void Searcher::TryForward(std::size_t i, Part part, std::int64_t free) {
  if (PartOf(state_, i) == kNothing || PartOf(state_, i + 1) >= part) return;
  const std::int64_t bytes = part == kAll ? model_.ForwardBytes(i) : model_.OutputBytes(i);
  if (bytes - BytesOf(state_, i + 1) > free) {
    lacks_memory_ = true;
    return;
  }
  const ChainAction action = part == kAll ? model_.ActionOf(i) : ChainAction::kForwardOutput;
  Reach(With(state_, i + 1, part), seconds_ + model_.forward_seconds(i), {action, i});
}

void Searcher::TryDrops() {
  for (std::size_t i = 1; i <= LeftOf(state_); ++i) {
    if (PartOf(state_, i) == kNothing || !model_.may_rerun(i - 1)) continue;
    Reach(With(state_, i, kNothing), seconds_, {ChainAction::kDrop, i});
  }
}

void Searcher::Expand(State state) {
  state_ = state;
  const std::size_t left = LeftOf(state);
  const std::int64_t free = FreeBytes(state);
  lacks_memory_ = false;
  TryBackward(left - 1, free);
  for (std::size_t i = 0; i < left; ++i) {
    TryForward(i, kAll, free);
    // B_(left-1) needs all of its second input.
    if (i + 1 < left && model_.has_output_run(i)) TryForward(i, kOutput, free);
  }
  if (lacks_memory_) TryDrops();
}

ChainActions Searcher::ActionsTo(State state) const {
  ChainActions actions;
  while (true) {
    const Visit& visit = visits_.at(state);
    if (visit.before == state) break;
    actions.push_back(visit.step);
    state = visit.before;
  }
  std::reverse(actions.begin(), actions.end());
  return actions;
}

RecomputeSearch Searcher::Search() {
  RecomputeSearch result;
  const State first = With(model_.operations(), 0, kAll);
  state_ = first;
  Reach(first, 0, {});
  while (!queue_.empty()) {
    const Candidate next = queue_.top();
    result.lower_bound = next.bound;
    const bool is_over = budget_ != nullptr && budget_->HasEnded();
    if (visits_.size() > most_states_ || is_over) return result;
    queue_.pop();
    Visit& visit = visits_.at(next.state);
    if (visit.is_done) continue;
    visit.is_done = true;
    if (LeftOf(next.state) == 0) {
      result.actions = ActionsTo(next.state);
      result.seconds = next.seconds;
      break;
    }
    seconds_ = next.seconds;
    Expand(next.state);
  }
  if (result.actions.empty()) result.lower_bound = limit_;
  result.is_complete = true;
  return result;
}

}  // namespace

RecomputeSearch SearchRecomputation(const RecomputeModel& model, double seconds,
                                    std::size_t most_states, budget::Budget* budget) {
  return Searcher(model, seconds, most_states, budget).Search();
}

}  // namespace tidepool::chain_policies
