// SPDX-License-Identifier: Apache-2.0
// Bytes over time, from the begin and the end of each buffer. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_MEMORY_CURVE_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_MEMORY_CURVE_H_

#include <cstdint>
#include <vector>

#include "tidepool/schedule/timeline.h"

namespace tidepool::simulate {

class MemoryCurve {
 public:
  // Accepts times in any order.
  void Add(double seconds, std::int64_t bytes) { changes_.push_back({seconds, bytes}); }
  void AddBetween(double start, double end, std::int64_t bytes) {
    Add(start, bytes);
    Add(end, -bytes);
  }

  // Ends the curve and returns the points where it changes: times ascend and differ, and so do
  // bytes of neighbouring points. O(n log n).
  std::vector<MemoryPoint> TakePoints();

  // Returns the points of changes in ascending order of times. O(n).
  static std::vector<MemoryPoint> PointsOf(const std::vector<MemoryPoint>& changes);

  static std::int64_t PeakOf(const std::vector<MemoryPoint>& points);

 private:
  std::vector<MemoryPoint> changes_;  // change of the bytes at that time
};

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_MEMORY_CURVE_H_
