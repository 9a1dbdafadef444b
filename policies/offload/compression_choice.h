// What of a schedule's offloads to compress.
#ifndef TIDEPOOL_POLICIES_OFFLOAD_COMPRESSION_CHOICE_H_
#define TIDEPOOL_POLICIES_OFFLOAD_COMPRESSION_CHOICE_H_

#include <vector>

#include "absl/status/status.h"
#include "tidepool/graph.h"
#include "tidepool/schedule.h"
#include "tidepool/timeline.h"

namespace tidepool::offload_policies {

// Sets the density of those offloads of `schedule` that the CompressionAdvisor advises to compress:
// what saves memory of the host and makes nothing wait, by the times that the simulator predicts
// without compression (Shriram et al., IPDPS 2019, section V-C, choose by density alone).
// `densities` are of the graph's data. Errors are Simulate's. O(steps + uses) and a simulation.
absl::Status ChooseCompression(const TaskGraph& graph, const std::vector<double>& densities,
                               const TimelineOptions& machine, Schedule& schedule);

}  // namespace tidepool::offload_policies

#endif  // TIDEPOOL_POLICIES_OFFLOAD_COMPRESSION_CHOICE_H_
