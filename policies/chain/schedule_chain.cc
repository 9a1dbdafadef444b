// SPDX-License-Identifier: Apache-2.0
// Hands the steps of a chain's schedule to its graph.
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/chain/move_scheduler.h"
#include "tidepool/schedule/chain_policy.h"

namespace tidepool {
namespace {

using Kind = chain::ChainMove::Kind;

Kind KindOf(ChainAction action) {
  switch (action) {
    case ChainAction::kBackward:
      return Kind::kBackward;
    case ChainAction::kOffload:
      return Kind::kOffload;
    case ChainAction::kPrefetch:
      return Kind::kPrefetch;
    default:
      return Kind::kForward;
  }
}

}  // namespace

absl::StatusOr<Schedule> ScheduleChain(const TaskGraph& graph, const GraphChain& made,
                                       const ChainSchedule& schedule, std::int64_t granule) {
  if (absl::Status status = chain::CheckGraphSchedule(graph, granule); !status.ok()) return status;
  if (absl::Status status = CheckChainSchedule(made.chain, schedule); !status.ok()) return status;
  // Data leaves after its last use before it is made again, so drops need no moves.
  std::vector<chain::ChainMove> moves;
  for (const ChainStep& step : schedule.steps) {
    if (step.action == ChainAction::kDrop) continue;
    if (step.end >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a copy of a part of x_", step.index,
                       ", expected whole ones; on graphs, BestOptions::part_bytes makes parts"));
    }
    moves.push_back({KindOf(step.action), step.index, step.start_seconds});
  }
  absl::StatusOr<Schedule> made_schedule =
      chain::ScheduleMoves(graph, made, moves, schedule.seconds, granule);
  if (made_schedule.ok()) made_schedule->policy = schedule.policy;
  return made_schedule;
}

}  // namespace tidepool
