// SPDX-License-Identifier: Apache-2.0
// Merges the operations and the transfers of a chain into one list of steps.
#include "policies/training/chain/transfer_schedule.h"

#include <algorithm>
#include <vector>

#include "lib/base/arithmetic.h"
#include "policies/training/chain/recompute_model.h"

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

// Merges transfers into operations. Both halves of a schedule are rounded, so a time tells the
// order of two steps only where it differs by more than the rounding.
class StepMerger {
 public:
  StepMerger(const ChainTransfers& transfers, const ChainTimes& times)
      : operations_(Operations(times)),
        transfers_(Transfers(transfers, times)),
        rounding_(kEqualSeconds * times.seconds) {
    FindPositions();
  }

  Steps Merge() const;

 private:
  // The operations between which a transfer has to come, as positions in their list.
  struct Positions {
    std::size_t earliest = 0;  // of the first operation that may come after it
    std::size_t latest = 0;    // of the first operation that must come after it
  };

  void FindPositions();
  bool IsEarlier(const ChainStep& transfer, const ChainStep& operation) const;
  bool IsBefore(std::size_t transfer, std::size_t operation) const;

  const Steps operations_;
  const Steps transfers_;
  const double rounding_;
  std::vector<Positions> positions_;  // by transfer
};

// x_i is written by F_(i-1), and its prefetch ends before B_i. A transfer comes after those before
// it in the list, so it also has their earliest positions, and they have its latest one.
void StepMerger::FindPositions() {
  positions_.assign(transfers_.size(), {0, operations_.size()});
  std::size_t earliest = 0;
  for (std::size_t k = 0; k < transfers_.size(); ++k) {
    if (transfers_[k].action == ChainAction::kOffload) {
      earliest = std::max(earliest, transfers_[k].index);
    }
    positions_[k].earliest = earliest;
  }
  std::size_t latest = operations_.size();
  for (std::size_t k = transfers_.size(); k-- > 0;) {
    if (transfers_[k].action == ChainAction::kPrefetch) {
      latest = std::min(latest, operations_.size() - 1 - transfers_[k].index);
    }
    positions_[k].latest = latest;
  }
}

// Takes offloads first and prefetches last where starts are equal. Less memory is in use then:
// operations without duration before a prefetch have ended when it takes its memory.
bool StepMerger::IsEarlier(const ChainStep& transfer, const ChainStep& operation) const {
  return transfer.action == ChainAction::kOffload
             ? transfer.start_seconds <= operation.start_seconds + rounding_
             : transfer.start_seconds < operation.start_seconds - rounding_;
}

bool StepMerger::IsBefore(std::size_t transfer, std::size_t operation) const {
  const Positions& positions = positions_[transfer];
  if (operation < positions.earliest) return false;
  return operation >= positions.latest || IsEarlier(transfers_[transfer], operations_[operation]);
}

Steps StepMerger::Merge() const {
  Steps steps;
  steps.reserve(operations_.size() + transfers_.size());
  std::size_t next = 0;
  for (std::size_t p = 0; p < operations_.size(); ++p) {
    for (; next < transfers_.size() && IsBefore(next, p); ++next) {
      steps.push_back(transfers_[next]);
    }
    steps.push_back(operations_[p]);
  }
  double start = 0;
  for (ChainStep& step : steps) start = step.start_seconds = std::max(start, step.start_seconds);
  return steps;
}

}  // namespace

Steps StepsOf(const ChainTransfers& transfers, const ChainTimes& times) {
  return StepMerger(transfers, times).Merge();
}

ChainSchedule ScheduleOf(const Chain& chain, const ChainTransfers& transfers,
                         const ChainTimes& times) {
  ChainSchedule schedule;
  schedule.steps = StepsOf(transfers, times);
  schedule.seconds = times.seconds;
  schedule.lower_bound_seconds = std::min(ChainOperationBound(chain), times.seconds);
  schedule.proved = times.seconds <= schedule.lower_bound_seconds * (1 + kEqualSeconds);
  return schedule;
}

absl::StatusOr<ChainSchedule> ScheduleSet(const Chain& chain, absl::Span<const std::size_t> set) {
  const ChainTransfers transfers = OrderedTransfers(set);
  const absl::StatusOr<ChainTimes> times = PlaceTransfers(chain, transfers);
  if (!times.ok()) return times.status();
  return ScheduleOf(chain, transfers, *times);
}

}  // namespace tidepool::chain_policies
