// SPDX-License-Identifier: Apache-2.0
// Chooses the offloads of a schedule to compress.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_COMPRESSION_CHOICE_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_COMPRESSION_CHOICE_H_

#include <vector>

#include "absl/status/status.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/timeline.h"

namespace tidepool::layerwise {

// Returns InvalidArgument unless there are no densities, or one from 0 to 1 per datum of the graph.
absl::Status CheckDensities(const TaskGraph& graph, const std::vector<double>& densities);

// Sets the density of the offloads of `schedule` that are to be compressed. These are the offloads
// for which the CompressionAdvisor finds a sufficient saving, as long as the simulator predicts at
// most 1 % more time for the iteration. (Shriram et al., IPDPS 2019, section V-C, choose by density
// alone.) Where the iteration does not fit otherwise, because the host has no room, every offload
// that saves enough is compressed. `densities` has one value per datum of the graph. Errors are
// Simulate's. Runs one simulation and at most two more per offload, but no more than 512 for many
// offloads.
absl::Status ChooseCompression(const TaskGraph& graph, const std::vector<double>& densities,
                               const std::vector<double>& errors, const Machine& machine,
                               const PlacingOptions& placing, Schedule& schedule);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_COMPRESSION_CHOICE_H_
