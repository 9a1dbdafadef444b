// SPDX-License-Identifier: Apache-2.0
#include "policies/training/modnn/task_uses.h"

#include <algorithm>

namespace tidepool::modnn {

TaskUses::TaskUses(const TaskGraph& graph)
    : data_(graph.tasks.size()), tasks_(graph.data.size()), is_written_(graph.data.size()) {
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    const GraphTask& one = graph.tasks[task];
    for (const auto* uses : {&one.reads, &one.updates, &one.writes}) {
      for (const std::size_t data : *uses) {
        data_[task].push_back(data);
        tasks_[data].push_back(task);
        if (uses == &one.writes) is_written_[data] = true;
      }
    }
  }
}

std::size_t TaskUses::NextUse(std::size_t data, std::size_t task) const {
  const auto next = std::lower_bound(tasks_[data].begin(), tasks_[data].end(), task);
  return next == tasks_[data].end() ? kNoTask : *next;
}

}  // namespace tidepool::modnn
