// SPDX-License-Identifier: Apache-2.0
// A beam search over partial schedules, which is exact when the beam leaves none out.
#include "policies/training/transfers/transfer_search.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "lib/base/arithmetic.h"

namespace tidepool::transfers {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
// Sums of the same times in different orders differ by less than this share.

struct State {
  Progress progress;
  double bound = 0;
  std::size_t leaving = kNone;  // absence with a copy out that may end after the next start
  std::size_t coming = kNone;   // absence with a copy in that ends after the last operation
  std::size_t parent = kNone;
  TransferAction action;  // that made it of its parent
  bool is_dominated = false;
};

class Search {
 public:
  Search(const TransferProblem& problem, const TransferBounds& bounds, const SearchLimits& limits);

  SearchResult Run();

 private:
  using Mask = std::uint64_t;
  struct Later {
    bool operator()(const std::pair<double, std::size_t>& a,
                    const std::pair<double, std::size_t>& b) const {
      return a > b;
    }
  };
  using Queue = std::priority_queue<std::pair<double, std::size_t>,
                                    std::vector<std::pair<double, std::size_t>>, Later>;
  using Seen = std::unordered_map<std::uint64_t, std::vector<std::size_t>>;

  const Absence& AbsenceAt(std::size_t absence) const { return problem_.absences[order_[absence]]; }
  std::size_t operations() const { return problem_.seconds.size(); }
  bool IsAway(std::size_t state, std::size_t absence) const {
    return (masks_[state * words_ + absence / 64] >> (absence % 64) & 1) != 0;
  }

  void Begin();
  bool ExpandLevel(std::size_t started);
  void Expand(std::size_t at);
  void StartOperation(std::size_t at);
  void StartOut(std::size_t at, std::size_t absence);
  void StartIn(std::size_t at, std::size_t absence);

  void Send(std::size_t at);
  void Fetch(std::size_t at);
  bool IsUsable(std::size_t at, std::size_t operation) const;
  std::int64_t Used(const State& state, std::size_t at, double time) const;
  bool FindRoom(const State& state, std::size_t at, std::int64_t limit, double& time) const;

  void Push(State state, std::size_t flipped);
  bool IsDominated(const State& state, std::vector<std::size_t>& others);
  bool HasSameData(std::size_t a, std::size_t b) const;
  double DeadlineBound(const State& state, std::size_t at) const;
  std::uint64_t HashOf(const State& state, std::size_t at) const;
  void Finish(const State& state, std::size_t at);

  const TransferProblem& problem_;
  const TransferBounds& bounds_;
  const SearchLimits& limits_;
  std::vector<std::size_t> order_;                    // absences by the operation that needs them
  std::vector<std::vector<std::size_t>> sent_early_;  // by ended operations: written, not left
  std::vector<std::vector<std::size_t>> needed_by_;   // by operation
  std::size_t words_ = 0;                             // of a mask
  std::vector<State> states_;
  std::vector<Mask> masks_;  // of the data that is away, sent or being sent
  std::vector<Queue> open_;  // by operations started
  std::vector<Seen> seen_;
  double best_seconds_ = 0;
  std::size_t best_ = kNone;
  bool is_complete_ = true;
};

Search::Search(const TransferProblem& problem, const TransferBounds& bounds,
               const SearchLimits& limits)
    : problem_(problem),
      bounds_(bounds),
      limits_(limits),
      order_(problem.absences.size()),
      sent_early_(problem.seconds.size() + 1),
      needed_by_(problem.seconds.size() + 1),
      words_((problem.absences.size() + 63) / 64),
      open_(problem.seconds.size() + 1),
      seen_(problem.seconds.size() + 1),
      best_seconds_(limits.below_seconds) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    const Absence& one = problem.absences[a];
    const Absence& other = problem.absences[b];
    return one.needed != other.needed ? one.needed < other.needed : one.left > other.left;
  });
  for (std::size_t absence = 0; absence < order_.size(); ++absence) {
    needed_by_[AbsenceAt(absence).needed].push_back(absence);
    for (std::size_t q = AbsenceAt(absence).written; q < AbsenceAt(absence).left; ++q)
      sent_early_[q].push_back(absence);
  }
}

void Search::Begin() {
  State state;
  states_.push_back(state);
  masks_.resize(words_);
  for (std::size_t absence = 0; absence < order_.size(); ++absence) {
    if (!AbsenceAt(absence).begins_away) continue;
    masks_[absence / 64] |= Mask{1} << (absence % 64);
    states_[0].progress.away_bytes += AbsenceAt(absence).bytes;
  }
  states_[0].bound = bounds_.Of(states_[0].progress);
  open_[0].emplace(states_[0].bound, 0);
}

// Returns the bytes in use at `time`, which is no earlier than the last start.
std::int64_t Search::Used(const State& state, std::size_t at, double time) const {
  const bool runs = time < state.progress.busy_until;
  const std::size_t ended = state.progress.started - (runs ? 1 : 0);
  std::int64_t used = runs ? problem_.running_bytes[ended] : problem_.resting_bytes[ended];
  used -= state.progress.away_bytes;
  const bool leaves = state.leaving != kNone && state.progress.out_until > time;
  if (leaves) used += AbsenceAt(state.leaving).bytes;
  for (const std::size_t absence : sent_early_[ended]) {
    if (IsAway(at, absence) && !(leaves && absence == state.leaving))
      used += AbsenceAt(absence).bytes;
  }
  return used;
}

// Moves `time` to the first moment from it on at which at most `limit` bytes are in use.
bool Search::FindRoom(const State& state, std::size_t at, std::int64_t limit, double& time) const {
  while (Used(state, at, time) > limit) {
    double next = std::numeric_limits<double>::infinity();
    if (state.progress.busy_until > time) next = state.progress.busy_until;
    if (state.leaving != kNone && state.progress.out_until > time) {
      next = std::min(next, state.progress.out_until);
    }
    if (next == std::numeric_limits<double>::infinity()) return false;
    time = next;
  }
  return true;
}

// Whether no datum of an operation is away.
bool Search::IsUsable(std::size_t at, std::size_t operation) const {
  return std::none_of(needed_by_[operation].begin(), needed_by_[operation].end(),
                      [&](std::size_t absence) { return IsAway(at, absence); });
}

void Search::StartOperation(std::size_t at) {
  const State& state = states_[at];
  const std::size_t k = state.progress.started;
  if (!IsUsable(at, k)) return;
  double time = state.progress.busy_until;
  if (state.coming != kNone && AbsenceAt(state.coming).needed <= k) {
    time = std::max(time, state.progress.in_until);
  }
  // The operation takes the difference between running and resting, beside all that is in use.
  const std::int64_t taken = problem_.running_bytes[k] - problem_.resting_bytes[k];
  if (!FindRoom(state, at, problem_.memory_bytes - taken, time)) return;
  State next = state;
  next.progress.started = k + 1;
  next.progress.busy_until = time + problem_.seconds[k];
  next.progress.out_until = std::max(next.progress.out_until, time);
  next.progress.in_until = std::max(next.progress.in_until, time);
  next.action = {TransferAction::Kind::kOperation, k, time};
  next.parent = at;
  Push(next, kNone);
}

void Search::StartOut(std::size_t at, std::size_t absence) {
  const State& state = states_[at];
  double time = state.progress.out_until;
  if (AbsenceAt(absence).written == state.progress.started)
    time = std::max(time, state.progress.busy_until);
  State next = state;
  next.progress.away_bytes += AbsenceAt(absence).bytes;
  next.progress.out_until = time + AbsenceAt(absence).out_seconds;
  next.progress.in_until =
      std::max(next.progress.in_until, problem_.full_duplex ? time : next.progress.out_until);
  next.progress.busy_until = std::max(next.progress.busy_until, time);
  next.leaving = absence;
  if (!problem_.full_duplex) next.coming = kNone;
  next.action = {TransferAction::Kind::kOut, order_[absence], time};
  next.parent = at;
  Push(next, absence);
}

void Search::StartIn(std::size_t at, std::size_t absence) {
  const State& state = states_[at];
  double time = state.progress.in_until;
  if (state.leaving == absence) time = std::max(time, state.progress.out_until);
  if (AbsenceAt(absence).left == state.progress.started)
    time = std::max(time, state.progress.busy_until);
  if (!FindRoom(state, at, problem_.memory_bytes - AbsenceAt(absence).bytes, time)) return;
  State next = state;
  next.progress.away_bytes -= AbsenceAt(absence).bytes;
  next.progress.in_until = time + AbsenceAt(absence).in_seconds;
  next.progress.out_until =
      std::max(next.progress.out_until, problem_.full_duplex ? time : next.progress.in_until);
  next.progress.busy_until = std::max(next.progress.busy_until, time);
  next.coming = absence;
  if (!problem_.full_duplex) next.leaving = kNone;
  next.action = {TransferAction::Kind::kIn, order_[absence], time};
  next.parent = at;
  Push(next, absence);
}

// Everything away comes back before its operation, one copy after the other.
double Search::DeadlineBound(const State& state, std::size_t at) const {
  double link = state.progress.in_until;
  double bound = 0;
  for (std::size_t word = 0; word < words_; ++word) {
    for (Mask mask = masks_[at * words_ + word]; mask != 0; mask &= mask - 1) {
      const Absence& one = AbsenceAt(word * 64 + static_cast<std::size_t>(std::countr_zero(mask)));
      link += one.in_seconds;
      bound = std::max(bound, link + bounds_.seconds_from(one.needed));
    }
  }
  return bound;
}

std::uint64_t Search::HashOf(const State& state, std::size_t at) const {
  std::uint64_t hash = state.leaving * 0x9E3779B97F4A7C15u + state.coming;
  for (std::size_t word = 0; word < words_; ++word) {
    hash = (hash ^ masks_[at * words_ + word]) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  }
  return hash;
}

bool Search::HasSameData(std::size_t a, std::size_t b) const {
  return std::equal(masks_.begin() + static_cast<std::ptrdiff_t>(a * words_),
                    masks_.begin() + static_cast<std::ptrdiff_t>((a + 1) * words_),
                    masks_.begin() + static_cast<std::ptrdiff_t>(b * words_));
}

// Removes others that the last state dominates, unless one of them dominates it.
bool Search::IsDominated(const State& state, std::vector<std::size_t>& others) {
  const auto is_no_later = [](const Progress& a, const Progress& b) {
    return a.busy_until <= b.busy_until && a.out_until <= b.out_until && a.in_until <= b.in_until;
  };
  const std::size_t at = states_.size();
  for (std::size_t k = 0; k < others.size();) {
    State& other = states_[others[k]];
    const bool is_comparable = other.leaving == state.leaving && other.coming == state.coming &&
                               HasSameData(others[k], at);
    if (is_comparable && is_no_later(other.progress, state.progress)) return true;
    if (is_comparable && is_no_later(state.progress, other.progress)) {
      other.is_dominated = true;
      others[k] = others.back();
      others.pop_back();
    } else {
      ++k;
    }
  }
  return false;
}

// Keeps a state unless it cannot be better than the best schedule or than another state. `flipped`
// is the absence in which its data differs from that of its parent.
void Search::Push(State state, std::size_t flipped) {
  // The next operation or copy in starts no earlier than this.
  const double next_start = std::min(state.progress.busy_until, state.progress.in_until);
  if (state.progress.out_until <= next_start) state.leaving = kNone;
  if (state.progress.in_until <= state.progress.busy_until) state.coming = kNone;
  const double limit = best_seconds_ * (1 - kEqualSeconds);
  state.bound = std::max(state.bound, bounds_.Of(state.progress));
  if (state.bound >= limit) return;
  const std::size_t at = states_.size();
  masks_.resize(at * words_);
  for (std::size_t word = 0; word < words_; ++word) {
    masks_.push_back(masks_[state.parent * words_ + word]);
  }
  if (flipped != kNone) masks_[at * words_ + flipped / 64] ^= Mask{1} << (flipped % 64);
  state.bound = std::max(state.bound, DeadlineBound(state, at));
  if (state.bound >= limit) return;
  if (state.progress.started == operations() && state.progress.away_bytes == 0) {
    return Finish(state, at);
  }
  std::vector<std::size_t>& others = seen_[state.progress.started][HashOf(state, at)];
  if (IsDominated(state, others)) return;
  others.push_back(at);
  open_[state.progress.started].emplace(state.bound, at);
  states_.push_back(state);
}

void Search::Finish(const State& state, std::size_t at) {
  best_seconds_ = std::max(state.progress.busy_until, state.progress.in_until);
  best_ = at;
  states_.push_back(state);
}

void Search::Send(std::size_t at) {
  const std::size_t started = states_[at].progress.started;
  std::size_t tried = 0;
  for (std::size_t absence = order_.size(); absence-- > 0;) {
    // Data that the next operation needs would come back at once.
    if (AbsenceAt(absence).needed <= started) break;
    if (AbsenceAt(absence).written > started || IsAway(at, absence) ||
        AbsenceAt(absence).begins_away)
      continue;
    if (tried++ == limits_.branching) {
      is_complete_ = false;
      return;
    }
    StartOut(at, absence);
  }
}

void Search::Fetch(std::size_t at) {
  std::size_t tried = 0;
  for (std::size_t word = 0; word < words_; ++word) {
    // Pushing states moves the masks.
    for (Mask mask = masks_[at * words_ + word]; mask != 0; mask &= mask - 1) {
      const std::size_t absence = word * 64 + static_cast<std::size_t>(std::countr_zero(mask));
      if (AbsenceAt(absence).left > states_[at].progress.started) continue;
      if (tried++ == limits_.branching) {
        is_complete_ = false;
        return;
      }
      StartIn(at, absence);
    }
  }
}

void Search::Expand(std::size_t at) {
  if (states_[at].progress.started < operations()) StartOperation(at);
  Send(at);
  Fetch(at);
}

// Continues the best states of one number of started operations. Returns false to end the search.
bool Search::ExpandLevel(std::size_t started) {
  std::size_t expanded = 0;
  for (Queue& queue = open_[started]; !queue.empty();) {
    const auto [bound, at] = queue.top();
    queue.pop();
    if (states_[at].is_dominated) continue;
    if (bound >= best_seconds_ * (1 - kEqualSeconds)) break;
    if (expanded == limits_.width) {
      is_complete_ = false;
      break;
    }
    const bool is_over = limits_.budget != nullptr && limits_.budget->HasEnded();
    if (states_.size() > limits_.most_states || is_over) {
      is_complete_ = false;
      return false;
    }
    ++expanded;
    Expand(at);
  }
  seen_[started].clear();
  return true;
}

SearchResult Search::Run() {
  Begin();
  for (std::size_t started = 0; started <= operations() && ExpandLevel(started); ++started) {
  }
  SearchResult result;
  result.is_complete = is_complete_;
  if (best_ == kNone) return result;
  result.seconds = best_seconds_;
  for (std::size_t at = best_; states_[at].parent != kNone; at = states_[at].parent) {
    result.actions.push_back(states_[at].action);
  }
  std::reverse(result.actions.begin(), result.actions.end());
  return result;
}

}  // namespace

SearchResult SearchTransfers(const TransferProblem& problem, const TransferBounds& bounds,
                             const SearchLimits& limits) {
  return Search(problem, bounds, limits).Run();
}

}  // namespace tidepool::transfers
