// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/algorithm_choices.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "policies/training/layerwise/layerwise.h"

namespace tidepool::search {
namespace {

// Returns each task's fastest algorithm with at most this workspace.
Algorithms AlgorithmsOf(const TaskGraph& graph, std::int64_t most_workspace) {
  Algorithms algorithms;
  algorithms.reserve(graph.tasks.size());
  for (const GraphTask& task : graph.tasks) {
    algorithms.push_back(layerwise::FastestAlgorithm(task, most_workspace));
  }
  return algorithms;
}

std::vector<Algorithms> AllChoices(const TaskGraph& graph) {
  constexpr std::int64_t kMostParts = 16;  // of the largest workspace
  std::int64_t largest = 0;
  for (const GraphTask& task : graph.tasks) {
    largest = std::max(largest, task.algorithms.back().workspace_bytes);
  }
  std::vector<Algorithms> choices;
  for (std::int64_t parts = 1; parts <= kMostParts; parts *= 2) {
    choices.push_back(AlgorithmsOf(graph, largest / parts));
  }
  choices.push_back(AlgorithmsOf(graph, layerwise::kLeastWorkspace));
  choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
  return choices;
}

}  // namespace

std::vector<Algorithms> PromisingAlgorithms(const TaskGraph& graph,
                                            const transfers::IterationOptions& options) {
  std::vector<Algorithms> choices = AllChoices(graph);
  if (choices.size() <= 2) return choices;
  std::vector<std::pair<double, std::size_t>> order;
  order.reserve(choices.size());
  for (std::size_t k = 0; k < choices.size(); ++k) {
    const transfers::Iteration quick = transfers::SearchIteration(
        graph, choices[k], options, [](std::size_t) { return false; },
        [](std::size_t) { return false; });
    order.emplace_back(quick.seconds, k);
  }
  std::sort(order.begin(), order.end());
  const std::size_t best = order[0].second;
  const std::size_t other = best == 0 ? order[1].second : 0;
  return {std::move(choices[best]), std::move(choices[other])};
}

}  // namespace tidepool::search
