// vDNN's dynamic mode: the quickest of the modes that fit.
#ifndef TIDEPOOL_POLICIES_OFFLOAD_MODE_SEARCH_H_
#define TIDEPOOL_POLICIES_OFFLOAD_MODE_SEARCH_H_

#include "absl/status/statusor.h"
#include "policies/offload/layers.h"
#include "policies/offload/layerwise.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool::offload_policies {

// `mode` with the set and the limit of workspaces with which an iteration takes the least time on
// `machine`, as the simulator predicts (Rhu et al., MICRO 2016, section III-C, where the profile of
// a few iterations does). Where the quickest algorithms do not fit, the limit is lowered as little
// as must be. A mode that offloads nothing stays one. ResourceExhausted, for the mode that needs
// least, when none fits.
absl::StatusOr<LayerwiseMode> FindMode(const TaskGraph& graph, const Layers& layers,
                                       const LayerwiseMode& mode, const TimelineOptions& machine);

}  // namespace tidepool::offload_policies

#endif  // TIDEPOOL_POLICIES_OFFLOAD_MODE_SEARCH_H_
