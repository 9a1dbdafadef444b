// SPDX-License-Identifier: Apache-2.0
// The exact relation between buffers of several streams.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_STREAM_CONFLICTS_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_STREAM_CONFLICTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/memory/plan/reuse_times.h"
#include "tidepool/trace/plan.h"

namespace tidepool::plan {

// Tells which buffers need disjoint addresses, in O(1). Streams are numbered from 0 on. A time is
// the number of different begins before it.
class StreamConflicts {
 public:
  // Knows nothing.
  StreamConflicts() = default;
  // Buffer i is the one of number `members[i]` in the problem. Knows nothing where the table would
  // take more than 128 MiB.
  StreamConflicts(const PlanProblem& problem, const ReuseTimes& reuse,
                  std::span<const std::uint32_t> members);

  bool IsKnown() const { return streams_ > 0; }
  bool Include(std::int32_t a, std::int32_t b) const {
    if (begin_[a] > begin_[b]) std::swap(a, b);
    return begin_[b] < reuse_[static_cast<std::size_t>(a) * streams_ + stream_[b]];
  }

 private:
  std::size_t streams_ = 0;
  std::vector<std::uint32_t> stream_;  // by buffer: the stream that allocates it
  std::vector<std::int32_t> begin_;
  std::vector<std::int32_t> reuse_;  // by buffer and stream, which may use the memory from then on
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_STREAM_CONFLICTS_H_
