// SPDX-License-Identifier: Apache-2.0
// Fills the tables of segments by their lengths.
#include "policies/training/chain/recompute_table.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "absl/numeric/int128.h"
#include "policies/training/chain/segment_splits.h"

namespace tidepool::chain_policies {
namespace {

constexpr double kDoesNotFit = std::numeric_limits<double>::infinity();

// Returns the number of a segment among all, of which each length has its own range of numbers.
std::size_t NumberOf(const Segment& segment, std::size_t operations) {
  const std::size_t length = segment.last - segment.first;
  const std::size_t shorter = length * (2 * operations - length + 1) / 2;
  return 2 * (shorter + segment.first) + (segment.has_result ? 1 : 0);
}
std::size_t SegmentsOf(std::size_t operations) { return operations * (operations + 1); }

// Calls `fill` with all segments, the shorter ones first.
template <typename Fill>
void ForEachSegment(std::size_t operations, const Fill& fill) {
  for (std::size_t length = 0; length < operations; ++length) {
    for (std::size_t first = 0; first + length < operations; ++first) {
      for (const bool has_result : {false, true}) fill(Segment{first, first + length, has_result});
    }
  }
}

double SecondsOfOne(const RecomputeModel& model, const Segment& segment) {
  const double forward = segment.has_result ? 0 : model.forward_seconds(segment.first);
  return forward + model.backward_seconds(segment.first);
}

}  // namespace

void SegmentPlanner::AddActions(const Segment& segment, std::size_t slots,
                                ChainActions& actions) const {
  const std::size_t first = segment.first;
  const Split split = SplitOf(segment, slots);
  if (split.at == 0) {
    if (!segment.has_result) actions.push_back({model_.ActionOf(first), first});
    actions.push_back({ChainAction::kBackward, first});
    return;
  }
  for (std::size_t i = first; i < split.at; ++i) {
    const bool keeps_all = !model_.has_output_run(i) || (i + 1 == split.at && !split.keeps_output);
    actions.push_back({keeps_all ? model_.ActionOf(i) : ChainAction::kForwardOutput, i});
    if (i > first) actions.push_back({ChainAction::kDrop, i});
  }
  const std::size_t kept =
      SlotsOf(split.keeps_output ? model_.output(split.at) : model_.x(split.at));
  AddActions({split.at, segment.last, segment.has_result}, slots - kept, actions);
  if (split.keeps_output) actions.push_back({ChainAction::kDrop, split.at});
  AddActions({first, split.at - 1, !split.keeps_output}, slots, actions);
}

RecomputeTable::RecomputeTable(const RecomputeModel& model, std::int64_t bytes, std::size_t slots,
                               budget::Budget* budget)
    : SegmentPlanner(model),
      bytes_(std::max<std::int64_t>(bytes, 1)),
      slots_(slots),
      rows_(SegmentsOf(model.operations()) * (slots + 1), kDoesNotFit) {
  ForEachSegment(model.operations(), [&](const Segment& segment) {
    if (budget != nullptr && budget->HasEnded()) return;
    segment.first == segment.last ? FillOne(segment) : FillMany(segment);
  });
}

const double* RecomputeTable::RowOf(const Segment& segment) const {
  return rows_.data() + NumberOf(segment, model().operations()) * (slots_ + 1);
}
double* RecomputeTable::RowOf(const Segment& segment) {
  return rows_.data() + NumberOf(segment, model().operations()) * (slots_ + 1);
}

std::size_t RecomputeTable::SlotsOf(std::int64_t bytes) const {
  if (bytes > bytes_) return slots_ + 1;
  const absl::uint128 scaled = absl::uint128(bytes) * slots_ + (bytes_ - 1);
  return static_cast<std::size_t>(absl::Uint128Low64(scaled / bytes_));
}

std::size_t RecomputeTable::SlotsIn(std::int64_t bytes) const {
  if (bytes >= bytes_) return slots_;
  return static_cast<std::size_t>(absl::Uint128Low64(absl::uint128(bytes) * slots_ / bytes_));
}

std::size_t RecomputeTable::LeastSlots(const Segment& segment, std::size_t slots) const {
  const double* row = RowOf(segment);
  // Seconds fall as slots grow.
  const double* least = std::lower_bound(row, row + slots, row[slots], std::greater<>());
  return static_cast<std::size_t>(least - row);
}

void RecomputeTable::FillOne(const Segment& segment) {
  double* row = RowOf(segment);
  const double seconds = SecondsOfOne(model(), segment);
  for (std::size_t m = SlotsOf(BytesOfOne(model(), segment)); m <= slots_; ++m) row[m] = seconds;
}

void RecomputeTable::FillMany(const Segment& segment) {
  double* row = RowOf(segment);
  ForEachSplit(model(), segment, [&](const SplitCost& cost) {
    const std::size_t kept = SlotsOf(cost.kept);
    const std::size_t least = std::max(kept, SlotsOf(cost.bytes));
    const double* after = RowOf(cost.after) - kept;
    const double* before = RowOf(cost.before);
    const double seconds = cost.seconds;
    for (std::size_t m = least; m <= slots_; ++m) {
      row[m] = std::min(row[m], seconds + after[m] + before[m]);
    }
  });
}

Split RecomputeTable::SplitOf(const Segment& segment, std::size_t slots) const {
  Split best;
  double least = kDoesNotFit;
  if (segment.first == segment.last) return best;
  ForEachSplit(model(), segment, [&](const SplitCost& cost) {
    const std::size_t kept = SlotsOf(cost.kept);
    if (slots < std::max(kept, SlotsOf(cost.bytes))) return;
    const double seconds =
        cost.seconds + Seconds(cost.after, slots - kept) + Seconds(cost.before, slots);
    if (seconds >= least) return;
    least = seconds;
    best = cost.split;
  });
  return best;
}

LeastMemoryTable::LeastMemoryTable(const RecomputeModel& model)
    : SegmentPlanner(model),
      bytes_(SegmentsOf(model.operations())),
      splits_(SegmentsOf(model.operations())) {
  ForEachSegment(model.operations(), [&](const Segment& segment) { Fill(segment); });
}

std::size_t LeastMemoryTable::IndexOf(const Segment& segment) const {
  return NumberOf(segment, model().operations());
}

void LeastMemoryTable::Fill(const Segment& segment) {
  const std::size_t index = IndexOf(segment);
  if (segment.first == segment.last) {
    bytes_[index] = BytesOfOne(model(), segment);
    return;
  }
  bytes_[index] = std::numeric_limits<std::int64_t>::max();
  ForEachSplit(model(), segment, [&](const SplitCost& cost) {
    const std::int64_t bytes =
        std::max({cost.bytes, cost.kept + Bytes(cost.after), Bytes(cost.before)});
    if (bytes >= bytes_[index]) return;
    bytes_[index] = bytes;
    splits_[index] = cost.split;
  });
}

Split LeastMemoryTable::SplitOf(const Segment& segment, std::size_t /*slots*/) const {
  return splits_[IndexOf(segment)];
}

}  // namespace tidepool::chain_policies
