// SPDX-License-Identifier: Apache-2.0
// Bytes over time, from the changes at the start and the end of each buffer.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_MEMORY_CURVE_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_MEMORY_CURVE_H_

#include <cstdint>
#include <vector>

#include "tidepool/training/timeline.h"

namespace tidepool::simulate {

// Returns the points where bytes over time change, from changes in ascending order of times. Times
// ascend and differ, and so do bytes of neighbouring points. O(n).
std::vector<MemoryPoint> CurveOf(const std::vector<MemoryPoint>& changes);

std::int64_t PeakOf(const std::vector<MemoryPoint>& points);

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_MEMORY_CURVE_H_
