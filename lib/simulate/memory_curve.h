// Bytes over time, from when each piece was there and how long. Not thread-safe.
#ifndef TIDEPOOL_LIB_SIMULATE_MEMORY_CURVE_H_
#define TIDEPOOL_LIB_SIMULATE_MEMORY_CURVE_H_

#include <cstdint>
#include <vector>

#include "tidepool/schedule/timeline.h"

namespace tidepool::simulate {

class MemoryCurve {
 public:
  // In any order of times.
  void Add(double seconds, std::int64_t bytes) { changes_.push_back({seconds, bytes}); }
  void AddBetween(double start, double end, std::int64_t bytes) {
    Add(start, bytes);
    Add(end, -bytes);
  }

  // Where it changes: times ascend and differ, and so do bytes from one to the next. Ends the
  // curve. O(n log n).
  std::vector<MemoryPoint> TakePoints();

  static std::int64_t PeakOf(const std::vector<MemoryPoint>& points);

 private:
  std::vector<MemoryPoint> changes_;  // `bytes` more from then on
};

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_SIMULATE_MEMORY_CURVE_H_
