// What of a schedule's offloads to compress.
#ifndef TIDEPOOL_POLICIES_OFFLOAD_COMPRESSION_CHOICE_H_
#define TIDEPOOL_POLICIES_OFFLOAD_COMPRESSION_CHOICE_H_

#include <vector>

#include "absl/status/status.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/schedule.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool::offload_policies {

// Sets the density of those offloads of `schedule` that are to be compressed: what the
// CompressionAdvisor says saves enough, as far as the iteration takes at most 1 % longer, as the
// simulator predicts (Shriram et al., IPDPS 2019, section V-C, choose by density alone).
// Where the iteration does not fit without, because the host has no room, everything that saves
// enough is compressed. `densities` are of the graph's data. Errors are Simulate's. A simulation,
// and two more for each offload at most, for many offloads no more than 512.
absl::Status ChooseCompression(const TaskGraph& graph, const std::vector<double>& densities,
                               const TimelineOptions& machine, Schedule& schedule);

}  // namespace tidepool::offload_policies

#endif  // TIDEPOOL_POLICIES_OFFLOAD_COMPRESSION_CHOICE_H_
