#ifndef TIDEPOOL_LIB_GRAPH_TIMELINE_OPTIONS_H_
#define TIDEPOOL_LIB_GRAPH_TIMELINE_OPTIONS_H_

#include "absl/status/status.h"
#include "tidepool/timeline.h"

namespace tidepool::task_graph {

// InvalidArgument for what is out of range.
absl::Status CheckTimelineOptions(const TimelineOptions& options);

}  // namespace tidepool::task_graph

#endif  // TIDEPOOL_LIB_GRAPH_TIMELINE_OPTIONS_H_
