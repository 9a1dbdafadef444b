// SPDX-License-Identifier: Apache-2.0
// Makes the keys of times from layers, and puts the times of these keys into graphs.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/graph/layer_fields.h"
#include "tidepool/training/task_profile.h"

namespace tidepool {
namespace {

std::string SizesText(const TaskGraph& graph, const std::vector<std::size_t>& uses) {
  std::string text;
  for (const std::size_t data : uses) {
    absl::StrAppend(&text, text.empty() ? "" : ",", graph.data[data].bytes);
  }
  return text;
}

// A task without parameters stands for itself alone.
std::string TaskText(const TaskGraph& graph, const GraphTask& task) {
  return absl::StrCat("task=", task.name, " reads=", SizesText(graph, task.reads),
                      " writes=", SizesText(graph, task.writes),
                      " updates=", SizesText(graph, task.updates));
}

std::string LayerText(const TaskGraph& graph, const GraphTask& task) {
  if (task.parameters.index() == 0) return TaskText(graph, task);
  std::string text(LayerParametersName(task.parameters));
  graph::ForEachField(task.parameters, [&](const auto& field, std::int64_t number) {
    if (field.name != "n") absl::StrAppend(&text, " ", std::string(field.name), "=", number);
  });
  return text;
}

std::int64_t SamplesOf(const TaskGraph& graph, const GraphTask& task) {
  std::int64_t samples = graph.batch;
  graph::ForEachField(task.parameters, [&](const auto& field, std::int64_t number) {
    if (field.name == "n") samples = number;
  });
  return samples;
}

}  // namespace

ProfileKey KeyOf(const TaskGraph& graph, std::size_t task, std::size_t algorithm,
                 const ProfiledMachine& machine) {
  const GraphTask& its = graph.tasks[task];
  ProfileKey key;
  key.machine = machine;
  key.layer =
      absl::StrCat(its.operation, " ", std::string(TaskPhaseName(its.phase)), " ",
                   std::string(TaskGradientsName(its.gradients)), " ", LayerText(graph, its));
  key.types = absl::StrCat(std::string(DataTypeName(its.data_type)), " ",
                           std::string(DataTypeName(its.compute_type)));
  key.algorithm = its.algorithms[algorithm].name;
  key.samples = SamplesOf(graph, its);
  return key;
}

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
