// SPDX-License-Identifier: Apache-2.0
// Merges the operations and the transfers of a chain into one list of steps.
#include "policies/chain/transfer_schedule.h"

#include <algorithm>
#include <vector>

namespace tidepool::chain_policies {
namespace {

using Steps = std::vector<ChainStep>;

Steps Operations(const ChainTimes& times) {
  Steps steps;
  steps.reserve(2 * times.forward_starts.size());
  for (std::size_t i = 0; i < times.forward_starts.size(); ++i) {
    steps.push_back({ChainAction::kForward, i, times.forward_starts[i]});
  }
  for (std::size_t i = times.backward_starts.size(); i-- > 0;) {
    steps.push_back({ChainAction::kBackward, i, times.backward_starts[i]});
  }
  return steps;
}

Steps Transfers(const ChainTransfers& transfers, const ChainTimes& times) {
  Steps steps;
  steps.reserve(2 * transfers.offloads.size());
  for (std::size_t k = 0; k < transfers.offloads.size(); ++k) {
    steps.push_back({ChainAction::kOffload, transfers.offloads[k], times.offload_starts[k]});
  }
  for (std::size_t k = 0; k < transfers.prefetches.size(); ++k) {
    steps.push_back({ChainAction::kPrefetch, transfers.prefetches[k], times.prefetch_starts[k]});
  }
  return steps;
}

// Whether a transfer comes before an operation. Of equal starts, an offload comes as early and a
// prefetch as late as the operations that make and use its data let it: operations without
// duration may lie in between.
bool IsBefore(const ChainStep& transfer, const ChainStep& operation) {
  if (transfer.start_seconds != operation.start_seconds) {
    return transfer.start_seconds < operation.start_seconds;
  }
  const bool is_backward = operation.action == ChainAction::kBackward;
  return transfer.action == ChainAction::kOffload
             ? is_backward || operation.index >= transfer.index
             : is_backward && operation.index <= transfer.index;
}

}  // namespace

ChainSchedule ScheduleOf(const Chain& chain, const ChainTransfers& transfers,
                         const ChainTimes& times) {
  const Steps operations = Operations(times);
  const Steps moves = Transfers(transfers, times);
  ChainSchedule schedule;
  schedule.steps.reserve(operations.size() + moves.size());
  auto move = moves.begin();
  for (const ChainStep& operation : operations) {
    for (; move != moves.end() && IsBefore(*move, operation); ++move) {
      schedule.steps.push_back(*move);
    }
    schedule.steps.push_back(operation);
  }
  schedule.steps.insert(schedule.steps.end(), move, moves.end());
  // Both halves were rounded, so the gap may be off by the last bit.
  double start = 0;
  for (ChainStep& step : schedule.steps) {
    start = step.start_seconds = std::max(start, step.start_seconds);
  }
  schedule.seconds = times.seconds;
  schedule.lower_bound_seconds = std::min(ChainOperationBound(chain), times.seconds);
  constexpr double kRoundingError = 1e-12;
  schedule.proved = times.seconds <= schedule.lower_bound_seconds * (1 + kRoundingError);
  return schedule;
}

absl::StatusOr<ChainSchedule> ScheduleSet(const Chain& chain, absl::Span<const std::size_t> set) {
  const ChainTransfers transfers = OrderedTransfers(set);
  const absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, transfers);
  if (!times.ok()) return times.status();
  return ScheduleOf(chain, transfers, *times);
}

}  // namespace tidepool::chain_policies
