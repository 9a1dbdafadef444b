// SPDX-License-Identifier: Apache-2.0
// Models of the zoo, and their tasks and data by name.
#ifndef TIDEPOOL_TESTS_TRAINING_MODELS_MADE_MODEL_H_
#define TIDEPOOL_TESTS_TRAINING_MODELS_MADE_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidepool/training/graph.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {

inline TaskGraph Made(std::string_view name, const ModelOptions& options) {
  absl::StatusOr<TaskGraph> graph = MakeModel(name, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : TaskGraph();
}

inline const GraphTask& TaskOf(const TaskGraph& graph, const std::string& name) {
  static const GraphTask none;
  const auto task = std::ranges::find(graph.tasks, name, &GraphTask::name);
  EXPECT_TRUE(task != graph.tasks.end()) << "no task " << name;
  return task == graph.tasks.end() ? none : *task;
}

// Returns the names of data, of the reads of a task for example.
inline std::set<std::string> NamesOf(const TaskGraph& graph, const std::vector<std::size_t>& uses) {
  std::set<std::string> names;
  for (const std::size_t data : uses) names.insert(graph.data[data].name);
  return names;
}

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_TRAINING_MODELS_MADE_MODEL_H_
