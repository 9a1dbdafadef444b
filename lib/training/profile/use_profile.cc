// SPDX-License-Identifier: Apache-2.0
// Puts measured times into graphs.
#include <algorithm>
#include <utility>

#include "tidepool/training/task_profile.h"

namespace tidepool {

absl::StatusOr<std::int64_t> UseProfile(ProfileStore& store, const ProfiledMachine& machine,
                                        TaskGraph& graph) {
  TaskGraph measured = graph;
  std::int64_t found = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    std::vector<TaskAlgorithm>& algorithms = measured.tasks[i].algorithms;
    for (std::size_t j = 0; j < algorithms.size(); ++j) {
      const absl::StatusOr<std::optional<TaskTime>> time = store.Find(KeyOf(graph, i, j, machine));
      if (!time.ok()) return time.status();
      if (!time->has_value()) continue;
      algorithms[j].seconds = (*time)->seconds;
      algorithms[j].workspace_bytes = (*time)->workspace_bytes;
      ++found;
    }
    std::stable_sort(algorithms.begin(), algorithms.end(),
                     [](const TaskAlgorithm& a, const TaskAlgorithm& b) {
                       return a.workspace_bytes < b.workspace_bytes;
                     });
  }
  graph = std::move(measured);
  return found;
}

}  // namespace tidepool
