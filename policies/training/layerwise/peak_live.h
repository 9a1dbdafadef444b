// SPDX-License-Identifier: Apache-2.0
// A lower bound of the device memory that a schedule needs.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_PEAK_LIVE_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_PEAK_LIVE_H_

#include <cstdint>

#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::layerwise {

// Returns the most bytes live at a step, as if each offload gave its memory back at once and never
// stayed. No placement needs less. `schedule` is valid for `graph`; `alignment` is a power of two.
// O(steps).
std::int64_t PeakLive(const TaskGraph& graph, const Schedule& schedule, std::int64_t alignment);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_PEAK_LIVE_H_
