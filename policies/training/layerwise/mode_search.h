// SPDX-License-Identifier: Apache-2.0
// The dynamic mode: the fastest of the modes that fit.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_MODE_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_MODE_SEARCH_H_

#include "absl/status/statusor.h"
#include "policies/training/layerwise/layers.h"
#include "policies/training/layerwise/layerwise.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::layerwise {

// Returns `mode` with the offload set and the limit of workspaces that give the fastest iteration
// on the machine of the request, as the simulator predicts. (Rhu et al., MICRO 2016, section III-C,
// profile a few iterations instead.) Where the fastest algorithms do not fit, the limit is lowered
// as little as possible. Shares of the sets are tried too (part_search.h). A mode without offloads
// stays one. ResourceExhausted, for the mode that needs least, when no mode fits.
absl::StatusOr<LayerwiseMode> FindMode(const TaskGraph& graph, const Layers& layers,
                                       const LayerwiseMode& mode, const ScheduleRequest& request);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_MODE_SEARCH_H_
