// SPDX-License-Identifier: Apache-2.0
// The policy that recomputes and offloads: the best of the answers of the search for blocks, placed
// exactly, and of the policies that do only one of both.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/base/budget/budget.h"
#include "policies/training/chain/block_search.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/recompute_model.h"
#include "policies/training/chain/smallest_blocks.h"

namespace tidepool::chain_policies {
namespace {

constexpr std::size_t kShortChain = 10;

// The fastest schedule so far, or the last error.
class Fastest {
 public:
  void Take(absl::StatusOr<ChainSchedule> schedule) {
    const bool is_faster = !best_.ok() || (schedule.ok() && schedule->seconds < best_->seconds);
    if (is_faster) best_ = std::move(schedule);
  }
  bool has_one() const { return best_.ok(); }
  double seconds() const { return best_->seconds; }
  absl::StatusOr<ChainSchedule> Finish() { return std::move(best_); }

 private:
  absl::StatusOr<ChainSchedule> best_ = absl::ResourceExhaustedError("no schedule yet");
};

// Places the answers of a search, at least one of them, until its budget ends.
void Place(const RecomputeTable& table, const BlockSearchOptions& search, Fastest& fastest) {
  for (const std::vector<Block>& blocks : SearchBlocks(table, search)) {
    fastest.Take(ScheduleBlocks(table, blocks));
    if (search.budget->HasEnded()) return;
  }
}

// Narrow searches come first: they have answers when the time ends a wide one.
void TryBlocks(const RecomputeTable& table, budget::Budget& budget, Fastest& fastest) {
  const std::size_t operations = table.model().operations();
  std::vector<BlockSearchOptions> searches = {{.width = 4}, {.width = 16}, {.width = 64}};
  // Nearly all choices of blocks of a short chain are tried.
  if (operations <= kShortChain) searches = {{.width = 512, .most_answers = 512}};
  // Answers of narrow searches do not limit wide ones: placed, an answer may lose less time than
  // the search expects.
  const double seconds = ChainSeconds(table.model().chain());
  double most_lost = BlockSearchOptions().most_lost;
  if (fastest.has_one()) most_lost = fastest.seconds() - seconds;
  for (BlockSearchOptions& search : searches) {
    if (budget.HasEnded()) break;
    search.budget = &budget;
    search.most_lost = most_lost;
    Place(table, search, fastest);
  }
  if (fastest.has_one()) return;
  fastest.Take(ScheduleBlocks(table, FindSmallestBlocks(table.model(), table.slots()).blocks));
}

}  // namespace

absl::StatusOr<ChainSchedule> MakePofo(const Chain& chain, const ChainPolicyOptions& options) {
  if (absl::Status status = CheckRecomputedLength(chain); !status.ok()) return status;
  budget::Budget budget(options.time_limit_seconds, options.stop);
  const RecomputeModel model(chain);
  const double bound = RecomputeBound(model, true);
  ChainPolicyOptions half = options;
  half.time_limit_seconds /= 2;
  Fastest fastest;
  fastest.Take(MakeGreedy(chain, options));
  fastest.Take(MakeRecompute(chain, half));
  if (!fastest.has_one() || fastest.seconds() > bound * (1 + kEqualSeconds)) {
    const std::size_t slots =
        RecomputeSlots(model.operations(), options.slots, half.time_limit_seconds);
    TryBlocks(RecomputeTable(model, chain.memory_bytes, slots, &budget), budget, fastest);
  }
  NoteEnd(budget, options);
  absl::StatusOr<ChainSchedule> schedule = fastest.Finish();
  if (!schedule.ok()) return schedule;
  schedule->proved = bound >= schedule->seconds * (1 - kEqualSeconds);
  schedule->lower_bound_seconds = schedule->proved ? schedule->seconds : bound;
  return schedule;
}

}  // namespace tidepool::chain_policies
