// SPDX-License-Identifier: Apache-2.0
#include "lib/training/graph/data_users.h"

#include <algorithm>
#include <numeric>

#include "lib/training/graph/task_uses.h"

namespace tidepool::graph {

std::vector<std::size_t> WritersOf(const TaskGraph& graph) {
  std::vector<std::size_t> writers(graph.data.size(), kNoTask);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : graph.tasks[i].writes) writers[data] = i;
  }
  return writers;
}

DataUsers::DataUsers(const TaskGraph& graph) : begins_(graph.data.size() + 1) {
  for (const GraphTask& task : graph.tasks) {
    for (const std::size_t data : UsesOf(task)) ++begins_[data + 1];
  }
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  users_.resize(begins_.back());
  std::vector<std::size_t> next = begins_;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : UsesOf(graph.tasks[i])) users_[next[data]++] = i;
  }
}

std::size_t DataUsers::FirstFrom(std::size_t data, std::size_t task) const {
  const auto end = users_.begin() + static_cast<std::ptrdiff_t>(begins_[data + 1]);
  const auto found =
      std::lower_bound(users_.begin() + static_cast<std::ptrdiff_t>(begins_[data]), end, task);
  return found == end ? kNoTask : *found;
}

std::size_t DataUsers::LastBefore(std::size_t data, std::size_t task) const {
  const auto begin = users_.begin() + static_cast<std::ptrdiff_t>(begins_[data]);
  const auto found = std::lower_bound(
      begin, users_.begin() + static_cast<std::ptrdiff_t>(begins_[data + 1]), task);
  return found == begin ? kNoTask : *(found - 1);
}

}  // namespace tidepool::graph
