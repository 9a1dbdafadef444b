// SPDX-License-Identifier: Apache-2.0
// The data of a pool's schedule that is on the host when an iteration begins.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_BEGIN_ON_HOST_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_BEGIN_ON_HOST_H_

#include <cstddef>
#include <vector>

#include "tidepool/schedule/graph.h"

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

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_BEGIN_ON_HOST_H_
