// SPDX-License-Identifier: Apache-2.0
// Sorts and sums the changes of a memory curve.
#include "lib/training/simulate/memory_curve.h"

#include <algorithm>
#include <utility>

namespace tidepool::simulate {

std::vector<MemoryPoint> MemoryCurve::TakePoints() {
  std::vector<MemoryPoint> changes = std::move(changes_);
  std::sort(changes.begin(), changes.end(),
            [](const MemoryPoint& a, const MemoryPoint& b) { return a.seconds < b.seconds; });
  return PointsOf(changes);
}

std::vector<MemoryPoint> MemoryCurve::PointsOf(const std::vector<MemoryPoint>& changes) {
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

std::int64_t MemoryCurve::PeakOf(const std::vector<MemoryPoint>& points) {
  std::int64_t peak = 0;
  for (const MemoryPoint& point : points) peak = std::max(peak, point.bytes);
  return peak;
}

}  // namespace tidepool::simulate
