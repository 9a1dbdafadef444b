// SPDX-License-Identifier: Apache-2.0
// A set of pool sizes: disjoint half-open intervals in ascending order.
#ifndef TIDEPOOL_LIB_TRACE_SIZING_POOL_SET_H_
#define TIDEPOOL_LIB_TRACE_SIZING_POOL_SET_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tidepool::sizing {

inline constexpr std::int64_t kUnbounded = INT64_MAX;

struct PoolInterval {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive; kUnbounded: every larger size
};

class PoolSet {
 public:
  PoolSet() = default;
  explicit PoolSet(PoolInterval interval) {
    if (interval.begin < interval.end) intervals_.push_back(interval);
  }

  bool empty() const { return intervals_.empty(); }
  std::int64_t min() const { return intervals_.front().begin; }
  std::int64_t end() const { return intervals_.back().end; }
  const std::vector<PoolInterval>& intervals() const { return intervals_; }

  PoolSet Intersection(PoolInterval with) const {
    PoolSet result;
    for (const PoolInterval& interval : intervals_) {
      result.Append({std::max(interval.begin, with.begin), std::min(interval.end, with.end)});
    }
    return result;
  }

  PoolSet Without(PoolInterval interval) const {
    PoolSet result = Intersection({INT64_MIN, interval.begin});
    if (interval.end != kUnbounded) {
      for (const PoolInterval& above : Intersection({interval.end, kUnbounded}).intervals_) {
        result.Append(above);
      }
    }
    return result;
  }

  PoolSet Without(const PoolSet& other) const {
    PoolSet result = *this;
    for (const PoolInterval& interval : other.intervals_) result = result.Without(interval);
    return result;
  }

  PoolSet Union(const PoolSet& other) const {
    std::vector<PoolInterval> all = intervals_;
    all.insert(all.end(), other.intervals_.begin(), other.intervals_.end());
    std::sort(all.begin(), all.end(),
              [](const PoolInterval& a, const PoolInterval& b) { return a.begin < b.begin; });
    PoolSet result;
    for (const PoolInterval& interval : all) result.Append(interval);
    return result;
  }

 private:
  // `interval` begins at or above every interval so far.
  void Append(PoolInterval interval) {
    if (interval.begin >= interval.end) return;
    if (!intervals_.empty() && interval.begin <= intervals_.back().end) {
      intervals_.back().end = std::max(intervals_.back().end, interval.end);
    } else {
      intervals_.push_back(interval);
    }
  }

  std::vector<PoolInterval> intervals_;
};

}  // namespace tidepool::sizing

#endif  // TIDEPOOL_LIB_TRACE_SIZING_POOL_SET_H_
