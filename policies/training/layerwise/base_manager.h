// SPDX-License-Identifier: Apache-2.0
// The memory manager that the papers compare with: nothing leaves the device.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_BASE_MANAGER_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_BASE_MANAGER_H_

#include <cstdint>
#include <vector>

#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::layerwise {

// The addresses of the base manager of vDNN++ (Shriram et al., IPDPS 2019, section V). From low to
// high they are: all data but gradients, each datum at an address of its own; chunks, which
// gradients of layers take in turn; one workspace, which tasks take in turn.
//
// A gradient takes the first chunk that is free. Of layers in a row two gradients are live at a
// time, so there are two chunks. Other networks have as many chunks as live gradients.
struct BaseAddresses {
  std::vector<std::int64_t> offsets;  // by data of the graph
  std::int64_t workspace_offset = 0;  // all bytes but the workspace
};

// Places the data of a valid graph. `alignment` is a power of two up to 2^30. O(data + uses), and
// the number of chunks for each gradient.
BaseAddresses PlaceBase(const TaskGraph& graph, std::int64_t alignment);

struct BaseSchedule {
  Schedule schedule;
  std::int64_t memory_bytes = 0;  // with the workspace
};

// Returns the valid schedule of these addresses. Each task has its fastest algorithm among those
// with at most `most_workspace`, as in layerwise schedules. Data at home on the host comes at the
// begin, and data that must end there leaves at the end. O(data + uses).
BaseSchedule ScheduleBase(const TaskGraph& graph, const BaseAddresses& addresses,
                          std::int64_t alignment, std::int64_t most_workspace);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_BASE_MANAGER_H_
