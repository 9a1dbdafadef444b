// SPDX-License-Identifier: Apache-2.0
// The policy `best`: the fastest schedule of the other policies and of two searches of its own, one
// of which proves that there is no faster one where it ends.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/base/budget/budget.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/recompute_model.h"
#include "policies/training/transfers/away_set.h"
#include "policies/training/transfers/graph_problem.h"
#include "policies/training/transfers/transfer_bounds.h"
#include "policies/training/transfers/transfer_dispatch.h"
#include "policies/training/transfers/transfer_search.h"

namespace tidepool::chain_policies {
namespace {

using transfers::TransferAction;
using transfers::TransferProblem;

// Limits the work of the search over sets, in seconds of a usual core, also for a longer time
// limit.
constexpr double kSecondsForSets = 0.25;

// The bytes [begin, end) of an activation that an absence moves; end -1: all of it.
struct Moved {
  std::size_t activation = 0;
  std::int64_t begin = 0;
  std::int64_t end = -1;
};

// Returns the activations that absences move, or their parts. x_L is needed by two operations in a
// row, so it never leaves.
std::vector<Moved> MovedIn(const Chain& chain, std::int64_t part_bytes) {
  // Bounds and schedules take time for each part, so long chains have fewer of each activation.
  constexpr std::int64_t kMostMoved = std::int64_t{1} << 14;
  const auto count = static_cast<std::int64_t>(chain.x.size());
  const std::int64_t most = std::clamp(kMostMoved / count, std::int64_t{1}, transfers::kMostParts);
  std::vector<Moved> moved;
  for (std::size_t i = 0; i + 1 < chain.forward_seconds.size(); ++i) {
    const std::int64_t bytes = chain.x[i];
    const std::int64_t part = std::max(part_bytes, bytes / most + (bytes % most > 0 ? 1 : 0));
    if (part_bytes == 0 || part >= bytes) {
      if (bytes > 0) moved.push_back({i});
      continue;
    }
    for (std::int64_t begin = 0; begin < bytes; begin += part) {
      moved.push_back({i, begin, std::min(begin + part, bytes)});
    }
  }
  return moved;
}

// Operations F_0, ..., F_L, B_L, ..., B_0.
TransferProblem ProblemOf(const Chain& chain, const ChainCopies& copies,
                          const std::vector<Moved>& moved) {
  const std::size_t count = chain.forward_seconds.size();
  TransferProblem problem;
  problem.seconds = chain.forward_seconds;
  problem.running_bytes = ForwardBytes(chain);
  problem.memory_bytes = chain.memory_bytes;
  problem.full_duplex = copies.full_duplex;
  problem.seconds.insert(problem.seconds.end(), chain.backward_seconds.rbegin(),
                         chain.backward_seconds.rend());
  const std::vector<std::int64_t> backward = BackwardBytes(chain);
  problem.running_bytes.insert(problem.running_bytes.end(), backward.rbegin(), backward.rend());
  std::int64_t kept = chain.x[0];
  problem.resting_bytes.push_back(kept);
  for (std::size_t i = 0; i < count; ++i) problem.resting_bytes.push_back(kept += chain.x[i + 1]);
  for (std::size_t i = count; i-- > 0;) {
    kept -= chain.x[i + 1];
    problem.resting_bytes.push_back(kept + chain.y[i]);
  }
  const transfers::CopyRates rates = RatesOf(chain, copies);
  const double density = DensityOf(copies);
  for (const Moved& one : moved) {
    const std::size_t i = one.activation;
    const std::int64_t bytes = one.end < 0 ? chain.x[i] : one.end - one.begin;
    problem.absences.push_back({.bytes = bytes,
                                .written = i,
                                .left = i + 1,
                                .needed = 2 * count - 1 - i,
                                .out_seconds = rates.OutSeconds(bytes, density),
                                .in_seconds = rates.InSeconds(bytes, density)});
  }
  return problem;
}

// Returns the chain with a link that carries raw bytes at the rate of compressed copies: the higher
// or the lower one of both directions.
Chain WithRateOfCopies(const Chain& chain, const ChainCopies& copies, bool is_higher) {
  if (!copies.compressor.exists()) return chain;
  const double gain = chain.link_bytes_per_second / SentShare(copies.density);
  const double out = std::min(gain, copies.compressor.out_bytes_per_second);
  const double in = std::min(gain, copies.compressor.in_bytes_per_second);
  Chain other = chain;
  other.link_bytes_per_second = is_higher ? std::max(out, in) : std::min(out, in);
  return other;
}

class BestChain {
 public:
  BestChain(const Chain& chain, const ChainPolicyOptions& options, std::vector<Moved> moved,
            double time_limit_seconds)
      : chain_(chain),
        options_(options),
        moved_(std::move(moved)),
        problem_(ProblemOf(chain, options.copies, moved_)),
        bounds_(problem_),
        time_limit_seconds_(time_limit_seconds),
        budget_(time_limit_seconds, options.stop) {
    best_.seconds = std::numeric_limits<double>::infinity();
    bound_ = std::max(bounds_.Of({}),
                      ChainOperationBound(WithRateOfCopies(chain, options.copies, true)));
  }

  absl::StatusOr<ChainSchedule> Make();
  // Returns `known`, or a faster schedule. Its bound is that of both.
  ChainSchedule Improve(ChainSchedule known);

 private:
  bool IsDone() const { return proved_ || best_.seconds <= bound_ * (1 + kEqualSeconds); }
  // Whether all orders of operations and transfers can be searched.
  bool IsSmall() const { return problem_.absences.size() <= 16; }
  void TryPolicies();
  void TrySets();
  void TrySearch();
  void Keep(const std::vector<TransferAction>& actions, double seconds);
  double LowerBound() const { return IsDone() ? best_.seconds : std::min(bound_, best_.seconds); }
  ChainStep CopyOf(ChainAction action, std::size_t absence) const {
    const Moved& moved = moved_[absence];
    return {.action = action, .index = moved.activation, .begin = moved.begin, .end = moved.end};
  }

  const Chain& chain_;
  const ChainPolicyOptions& options_;
  const std::vector<Moved> moved_;  // by absence
  const TransferProblem problem_;
  const transfers::TransferBounds bounds_;
  const double time_limit_seconds_;
  budget::Budget budget_;
  double bound_ = 0;
  bool proved_ = false;
  ChainSchedule best_;
};

void BestChain::Keep(const std::vector<TransferAction>& actions, double seconds) {
  if (seconds >= best_.seconds) return;
  best_.steps.clear();
  best_.seconds = seconds;
  const std::size_t count = chain_.forward_seconds.size();
  for (const TransferAction& action : actions) {
    switch (action.kind) {
      case TransferAction::Kind::kOperation:
        best_.steps.push_back(
            action.index < count ? ChainStep{ChainAction::kForward, action.index}
                                 : ChainStep{ChainAction::kBackward, 2 * count - 1 - action.index});
        break;
      case TransferAction::Kind::kOut:
        best_.steps.push_back(CopyOf(ChainAction::kOffload, action.index));
        break;
      case TransferAction::Kind::kIn:
        best_.steps.push_back(CopyOf(ChainAction::kPrefetch, action.index));
        break;
    }
    best_.steps.back().start_seconds = action.start_seconds;
  }
}

// Copies without latency that run one at a time suit a link of two directions too, and copies at
// the lower rate one that is faster in one direction.
void BestChain::TryPolicies() {
  if (options_.copies.latency_seconds > 0) return;
  const Chain chain = WithRateOfCopies(chain_, options_.copies, false);
  for (const ChainPolicy& policy : ChainPolicies()) {
    if (!policy.only_sends()) continue;
    if (IsDone() || budget_.HasEnded()) return;
    absl::StatusOr<ChainSchedule> made = policy.make(chain, options_);
    if (made.ok() && made->seconds < best_.seconds) best_ = *std::move(made);
  }
}

void BestChain::TrySets() {
  std::vector<bool> set = transfers::EagerSet(problem_);
  budget::Budget budget(transfers::StepsIn(kSecondsForSets), time_limit_seconds_, options_.stop);
  transfers::ImproveSet(
      problem_, bound_, options_.seed, [&](std::size_t steps) { return budget.Take(steps); }, set);
  NoteEnd(budget, options_);
  std::vector<TransferAction> actions;
  const double seconds = transfers::TransferDispatcher(problem_).Run(set, &actions);
  Keep(actions, seconds);
}

// Searches with wider and wider beams, first among few next copies and then among all.
void BestChain::TrySearch() {
  constexpr std::size_t kFewCopies = 3;
  constexpr std::size_t kWide = std::size_t{1} << 12;
  constexpr std::size_t kWidest = std::size_t{1} << 20;
  for (const bool few : {true, false}) {
    if (few && IsSmall()) continue;
    for (std::size_t width = 4; width <= (few || !IsSmall() ? kWide : kWidest); width *= 4) {
      if (IsDone() || budget_.HasEnded()) return;
      const transfers::SearchResult found =
          transfers::SearchTransfers(problem_, bounds_,
                                     {.width = width,
                                      .branching = few ? kFewCopies : problem_.absences.size() + 1,
                                      .below_seconds = best_.seconds,
                                      .budget = &budget_});
      Keep(found.actions, found.seconds);
      proved_ = found.is_complete;
    }
  }
}

absl::StatusOr<ChainSchedule> BestChain::Make() {
  TryPolicies();
  if (IsSmall()) TrySearch();
  if (!IsDone()) TrySets();
  if (!IsSmall()) TrySearch();
  NoteEnd(budget_, options_);
  if (best_.steps.empty() && options_.copies.latency_seconds > 0) {
    return absl::ResourceExhaustedError("no schedule was found");
  }
  if (best_.steps.empty()) {
    absl::StatusOr<ChainSchedule> greedy =
        MakeGreedy(WithRateOfCopies(chain_, options_.copies, false), options_);
    if (!greedy.ok()) return greedy;
    best_ = *std::move(greedy);
  }
  best_.proved = IsDone();
  best_.lower_bound_seconds = LowerBound();
  return std::move(best_);
}

// A search among all orders of many parts would need beams too wide for the time.
ChainSchedule BestChain::Improve(ChainSchedule known) {
  best_ = std::move(known);
  if (IsSmall()) TrySearch();
  if (!IsDone()) TrySets();
  NoteEnd(budget_, options_);
  best_.lower_bound_seconds = std::min(best_.lower_bound_seconds, LowerBound());
  best_.proved = best_.seconds <= best_.lower_bound_seconds * (1 + kEqualSeconds);
  return std::move(best_);
}

// The clock gives the searches for whole copies the same time with parts as without.
absl::StatusOr<ChainSchedule> MakeTransferring(const Chain& chain,
                                               const ChainPolicyOptions& options) {
  constexpr double kTimeForParts = 0.25;  // of the limit
  std::vector<Moved> whole = MovedIn(chain, 0);
  std::vector<Moved> parts = MovedIn(chain, options.copies.part_bytes);
  const bool has_parts = parts.size() > whole.size();
  absl::StatusOr<ChainSchedule> best =
      BestChain(chain, options, std::move(whole), options.time_limit_seconds).Make();
  if (!best.ok() || !has_parts) return best;
  return BestChain(chain, options, std::move(parts), kTimeForParts * options.time_limit_seconds)
      .Improve(*std::move(best));
}

// Returns the fastest schedule of the policies that recompute. They know no latency of copies.
absl::StatusOr<ChainSchedule> MakeRecomputing(const Chain& chain,
                                              const ChainPolicyOptions& options) {
  const Chain other = WithRateOfCopies(chain, options.copies, false);
  const bool has_latency = options.copies.latency_seconds > 0;
  return has_latency ? MakeRecompute(other, options) : MakePofo(other, options);
}

// Returns a lower bound of schedules that transfer, recompute, or do both.
double BoundWithRecomputation(const Chain& chain, const ChainCopies& copies) {
  if (!CheckRecomputedLength(chain).ok()) return ChainSeconds(chain);
  const Chain other = WithRateOfCopies(chain, copies, true);
  return RecomputeBound(RecomputeModel(other), true);
}

// Half of the time is for the policies that recompute.
absl::StatusOr<ChainSchedule> MakeWithRecomputation(const Chain& chain,
                                                    ChainPolicyOptions options) {
  options.time_limit_seconds /= 2;
  const double bound = BoundWithRecomputation(chain, options.copies);
  absl::StatusOr<ChainSchedule> best = absl::ResourceExhaustedError("no schedule was found");
  if (chain.memory_bytes >= LeastChainMemory(chain)) best = MakeTransferring(chain, options);
  if (!best.ok() || best->seconds > bound * (1 + kEqualSeconds)) {
    absl::StatusOr<ChainSchedule> made = MakeRecomputing(chain, options);
    if (made.ok() && (!best.ok() || made->seconds < best->seconds)) best = std::move(made);
  }
  if (!best.ok()) return best;
  best->proved = best->seconds <= bound * (1 + kEqualSeconds);
  best->lower_bound_seconds = best->proved ? best->seconds : bound;
  return best;
}

}  // namespace

absl::StatusOr<ChainSchedule> MakeBest(const Chain& chain, const ChainPolicyOptions& options) {
  return options.recomputes ? MakeWithRecomputation(chain, options)
                            : MakeTransferring(chain, options);
}

}  // namespace tidepool::chain_policies
