// SPDX-License-Identifier: Apache-2.0
// Sums the changes of a memory curve.
#include "lib/training/simulate/memory_curve.h"

#include <algorithm>

namespace tidepool::simulate {

std::vector<MemoryPoint> CurveOf(const std::vector<MemoryPoint>& changes) {
  std::vector<MemoryPoint> points;
  points.reserve(changes.size());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < changes.size();) {
    const double seconds = changes[i].seconds;
    const std::int64_t before = bytes;
    for (; i < changes.size() && changes[i].seconds == seconds; ++i) bytes += changes[i].bytes;
    if (bytes != before) points.push_back({seconds, bytes});
  }
  return points;
}

std::int64_t PeakOf(const std::vector<MemoryPoint>& points) {
  std::int64_t peak = 0;
  for (const MemoryPoint& point : points) peak = std::max(peak, point.bytes);
  return peak;
}

}  // namespace tidepool::simulate
