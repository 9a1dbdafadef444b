// SPDX-License-Identifier: Apache-2.0
// The actions of a recomputed segment, with their times and their memory.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_SEGMENT_PROFILE_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_SEGMENT_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "policies/training/chain/recompute_table.h"

namespace tidepool::chain_policies {

inline constexpr std::size_t kNoIndex = std::numeric_limits<std::size_t>::max();

// A forward or backward operation of a segment.
struct SegmentOperation {
  ChainStep step;  // without its start
  double seconds = 0;
  std::int64_t bytes = 0;       // of all data but x_first, while it runs
  std::size_t drop = kNoIndex;  // of the activation that is dropped after it
};
using Profile = std::vector<SegmentOperation>;

// Returns the actions of a segment that fits into `slots` of the table. O(actions L).
Profile ProfileOf(const RecomputeTable& table, const Segment& segment, std::size_t slots);

// Returns F_first, ..., F_(end-1) of the forward half. They keep nothing but x_end: all of it, or
// its output. O(end - first).
Profile ForwardProfile(const RecomputeModel& model, std::size_t first, std::size_t end,
                       bool keeps_all);

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_SEGMENT_PROFILE_H_
