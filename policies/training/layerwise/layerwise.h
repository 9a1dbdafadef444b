// SPDX-License-Identifier: Apache-2.0
// Layerwise schedules: vDNN's, and vDNN++'s.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "policies/training/layerwise/layers.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::layerwise {

// The fastest algorithm of each task is taken among those with at most this workspace, or else the
// one with the smallest workspace.
inline constexpr std::int64_t kLeastWorkspace = 0;
inline constexpr std::int64_t kAnyWorkspace = std::numeric_limits<std::int64_t>::max();

// Returns "(m)" for the least workspaces, "(p)" without a limit, or the limit in bytes.
std::string TextOfWorkspaces(std::int64_t most_workspace);

// Shares of the data of a set are whole numbers of these parts.
inline constexpr int kAllParts = 64;

struct LayerwiseMode {
  bool offloads = true;                        // false: everything stays
  OffloadSet set = OffloadSet::kConvolutions;  // not kDynamic
  // The share of the bytes of the set that leaves, spread over the layers: 1 to kAllParts.
  int parts = kAllParts;
  std::int64_t most_workspace = kAnyWorkspace;
  AllocationOrder order = AllocationOrder::kPrefetchFirst;
  // Whether each layer waits for the copies that it overlaps with (vDNN). Otherwise data is dropped
  // before the backward pass, or where its memory is needed (vDNN++).
  bool synchronizes = false;
};

// Returns the data that leaves after each forward layer. In the order of the layers, data leaves
// while the leaving bytes are at most the mode's share of the bytes so far. O(uses).
std::vector<std::vector<std::size_t>> LeavingAfter(const TaskGraph& graph, const Layers& layers,
                                                   const LayerwiseMode& mode);

// Returns the algorithm that a mode with this limit takes: its index in the task.
std::size_t FastestAlgorithm(const GraphTask& task, std::int64_t most_workspace);

// Returns a valid schedule of a valid graph, without compression. O(steps + uses).
Schedule MakeLayerwise(const TaskGraph& graph, const Layers& layers, const LayerwiseMode& mode);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERWISE_H_
