// SPDX-License-Identifier: Apache-2.0
// All ways to split a segment, with the memory of the forward operations before the split.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_SEGMENT_SPLITS_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_SEGMENT_SPLITS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "policies/training/chain/recompute_model.h"
#include "policies/training/chain/recompute_table.h"

namespace tidepool::chain_policies {

// A split, and its own cost.
struct SplitCost {
  Split split;
  double seconds = 0;      // of F_first, ..., F_(split-1)
  std::int64_t bytes = 0;  // that these need at most
  std::int64_t kept = 0;   // of x_split
  Segment after;           // runs next, with `kept` bytes less
  Segment before;          // runs then
};

// Returns the memory of a segment of one operation.
inline std::int64_t BytesOfOne(const RecomputeModel& model, const Segment& segment) {
  const std::size_t i = segment.first;
  const std::int64_t backward = model.x(i + 1) + model.BackwardBytes(i);
  if (segment.has_result) return backward;
  return std::max(backward, model.ForwardBytes(i) + model.GradientBytes(i));
}

// Calls `visit` with each split of a segment of several operations. O(last - first).
template <typename Visit>
void ForEachSplit(const RecomputeModel& model, const Segment& segment, const Visit& visit) {
  const std::size_t last = segment.last;
  const std::int64_t held =
      model.GradientBytes(last) + (segment.has_result ? model.x(last + 1) : 0);
  double seconds = 0;
  std::int64_t passed = 0;  // most bytes of the operations that keep their output alone
  for (std::size_t at = segment.first + 1; at <= last; ++at) {
    const std::size_t maker = at - 1;
    seconds += model.forward_seconds(maker);
    const std::int64_t input = maker > segment.first ? model.output(maker) : 0;
    const Segment after{at, last, segment.has_result};
    visit(SplitCost{{at, false},
                    seconds,
                    held + std::max(passed, input + model.ForwardBytes(maker)),
                    model.x(at),
                    after,
                    {segment.first, maker, true}});
    // From here on F_maker runs again.
    if (!model.may_rerun(maker)) return;
    passed = std::max(passed, input + model.OutputBytes(maker));
    visit(SplitCost{{at, true},
                    seconds,
                    held + passed,
                    model.output(at),
                    after,
                    {segment.first, maker, false}});
  }
}

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_SEGMENT_SPLITS_H_
