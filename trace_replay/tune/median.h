// SPDX-License-Identifier: Apache-2.0
// The median of measurements.
#ifndef TIDEPOOL_TRACE_REPLAY_TUNE_MEDIAN_H_
#define TIDEPOOL_TRACE_REPLAY_TUNE_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tidepool::tool {

// Returns the median of at least one value: the upper of two in the middle. O(values).
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TUNE_MEDIAN_H_
