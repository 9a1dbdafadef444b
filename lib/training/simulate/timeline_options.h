// SPDX-License-Identifier: Apache-2.0
// Checks the options of a simulation.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_TIMELINE_OPTIONS_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_TIMELINE_OPTIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tidepool/training/timeline.h"

namespace tidepool::simulate {

// Returns InvalidArgument for options out of range, and for more memory than the alignment allows.
absl::Status CheckTimelineOptions(const TimelineOptions& options, std::int64_t memory_bytes);

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_TIMELINE_OPTIONS_H_
