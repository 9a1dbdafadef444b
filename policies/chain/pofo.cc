// SPDX-License-Identifier: Apache-2.0
// The policy that recomputes and offloads: the best of the answers of the search for blocks, placed
// exactly, and of the policies that do only one of both.
#include <algorithm>
#include <optional>
#include <utility>

#include "policies/chain/block_search.h"
#include "policies/chain/chain_policies.h"
#include "policies/chain/recompute_model.h"

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

}  // namespace

absl::StatusOr<ChainSchedule> MakePofo(const Chain& chain, const ChainPolicyOptions& options) {
  if (absl::Status status = CheckRecomputedLength(chain); !status.ok()) return status;
  const RecomputeModel model(chain);
  const double bound = RecomputeBound(model, true);
  Fastest fastest;
  fastest.Take(MakeGreedy(chain, options));
  fastest.Take(MakeRecompute(chain, options));
  if (!fastest.has_one() || fastest.seconds() > bound * (1 + kEqualSeconds)) {
    const RecomputeTable table(model, chain.memory_bytes,
                               RecomputeSlots(model.operations(), options.slots), options.stop);
    BlockSearchOptions search;
    // Nearly all choices of blocks of a short chain are tried.
    if (model.operations() <= kShortChain) search = {.width = 512, .most_answers = 512};
    search.stop = options.stop;
    if (fastest.has_one()) search.most_lost = fastest.seconds() - ChainSeconds(chain);
    for (const std::vector<Block>& blocks : SearchBlocks(table, search)) {
      if (options.stop.stop_requested()) break;
      fastest.Take(ScheduleBlocks(table, blocks));
    }
  }
  absl::StatusOr<ChainSchedule> schedule = fastest.Finish();
  if (!schedule.ok()) return schedule;
  schedule->proved = bound >= schedule->seconds * (1 - kEqualSeconds);
  schedule->lower_bound_seconds = schedule->proved ? schedule->seconds : bound;
  return schedule;
}

}  // namespace tidepool::chain_policies
