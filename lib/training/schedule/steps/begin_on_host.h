// SPDX-License-Identifier: Apache-2.0
// The data that is on the host when an iteration begins, and the data that the host may read.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BEGIN_ON_HOST_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BEGIN_ON_HOST_H_

#include <cstddef>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::schedule {

// Returns, by data, whether its home before the iteration is the host and no task writes over its
// values. O(data + writes).
inline std::vector<bool> BeginOnHost(const TaskGraph& graph) {
  std::vector<bool> are_on_host(graph.data.size());
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    are_on_host[i] = graph.data[i].before == DataHome::kHost;
  }
  for (const GraphTask& task : graph.tasks) {
    for (const std::size_t data : task.writes) are_on_host[data] = false;
  }
  return are_on_host;
}

// Returns whether the host may read the data: the host does not decompress, so its copies are raw.
inline bool HostMayRead(const GraphData& data) {
  return data.before == DataHome::kHost || ExistsAfter(data) ||
         data.kind == DataKind::kWeightGradient;
}

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_BEGIN_ON_HOST_H_
