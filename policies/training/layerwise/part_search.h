// SPDX-License-Identifier: Apache-2.0
// Modes that offload only as much of a set as the memory asks for.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_PART_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_PART_SEARCH_H_

#include <optional>

#include "absl/status/status.h"
#include "policies/training/layerwise/layers.h"
#include "policies/training/layerwise/layerwise.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::layerwise {

struct TimedMode {
  LayerwiseMode mode;
  double seconds = 0;  // of an iteration
};

// Replaces `best` by the fastest mode that offloads a share of the convolutions' inputs or of all
// inputs, where that is faster than `best`. The other fields are those of `mode`.
//
// The same modes are tried for every memory: all numbers of parts, each with the largest of up to
// eight limits of workspaces that fits. The time of its copies and tasks bounds the time of a mode
// from below. Modes are tried in the order of that bound, and the search ends at the best time so
// far. A mode with more live bytes than the memory is not simulated. Errors are Simulate's.
// O(modes x steps), and a simulation for each mode that is tried.
absl::Status TryParts(const TaskGraph& graph, const Layers& layers, const LayerwiseMode& mode,
                      const ScheduleRequest& request, std::optional<TimedMode>& best);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_PART_SEARCH_H_
