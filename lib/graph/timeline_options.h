#ifndef TIDEPOOL_LIB_GRAPH_TIMELINE_OPTIONS_H_
#define TIDEPOOL_LIB_GRAPH_TIMELINE_OPTIONS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/placement.h"
#include "tidepool/timeline.h"

namespace tidepool::task_graph {

// InvalidArgument for what is out of range.
absl::Status CheckTimelineOptions(const TimelineOptions& options);
// The policy that `placement` and `plan` mean, before its first request. NotFound.
absl::StatusOr<std::unique_ptr<PlacementPolicy>> MakePolicy(const TimelineOptions& options);

}  // namespace tidepool::task_graph

#endif  // TIDEPOOL_LIB_GRAPH_TIMELINE_OPTIONS_H_
