// SPDX-License-Identifier: Apache-2.0
// Makes graphs of families, and families of graphs.
#include "tidepool/training/graph_family.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/training/graph/family_at_batch.h"

namespace tidepool {
namespace {

absl::Status FillAlgorithms(const GraphFamily& family, TaskGraph& graph) {
  if (family.cost_model != nullptr) {
    if (absl::Status status = family.cost_model(graph); !status.ok()) return status;
    for (GraphTask& task : graph.tasks) graph::SortByWorkspace(task.algorithms);
    return absl::OkStatus();
  }
  const std::optional<graph::TablePlace> place = graph::PlaceOf(family.batches, graph.batch);
  if (!place.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no times for batch ", graph.batch, ", expected ", family.batches.front(),
                     " to ", family.batches.back(), ", the batches of the table"));
  }
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    graph.tasks[i].algorithms = graph::AlgorithmsAt(family.costs[i], *place);
  }
  return absl::OkStatus();
}

// Keeps one number where all are equal.
template <typename Number>
void Shorten(std::vector<Number>& numbers) {
  const bool are_equal =
      std::all_of(numbers.begin(), numbers.end(), [&](Number n) { return n == numbers.front(); });
  if (are_equal) numbers.resize(1);
}

// Adds the algorithms of a task at batch number `at` of `batches`.
void AddCosts(const std::vector<TaskAlgorithm>& algorithms, std::size_t at, std::size_t batches,
              std::vector<AlgorithmCosts>& costs) {
  for (const TaskAlgorithm& algorithm : algorithms) {
    auto its = std::find_if(costs.begin(), costs.end(), [&](const AlgorithmCosts& known) {
      return known.name == algorithm.name;
    });
    if (its == costs.end()) {
      its = costs.insert(its, {algorithm.name, std::vector<double>(batches, -1),
                               std::vector<std::int64_t>(batches)});
    }
    its->seconds[at] = algorithm.seconds;
    its->workspace_bytes[at] = algorithm.workspace_bytes;
  }
}

}  // namespace

absl::StatusOr<TaskGraph> GraphAt(const GraphFamily& family, std::int64_t batch) {
  if (batch < 1 || batch > kMostBatch) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", batch, ", expected 1 to 2^40"));
  }
  TaskGraph graph = family.graph;
  if (const auto fault = graph::SetBatch(family, batch, graph); fault.has_value()) {
    return absl::InvalidArgumentError(fault->what);
  }
  if (absl::Status status = FillAlgorithms(family, graph); !status.ok()) return status;
  if (const absl::Status status = ValidateGraph(graph); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("at batch ", batch, ": ", status.message()));
  }
  return graph;
}

absl::Status TabulateCosts(absl::Span<const std::int64_t> batches, GraphFamily& family) {
  std::vector<std::vector<AlgorithmCosts>> costs(family.graph.tasks.size());
  for (std::size_t at = 0; at < batches.size(); ++at) {
    const absl::StatusOr<TaskGraph> graph = GraphAt(family, batches[at]);
    if (!graph.ok()) return graph.status();
    for (std::size_t i = 0; i < costs.size(); ++i) {
      AddCosts(graph->tasks[i].algorithms, at, batches.size(), costs[i]);
    }
  }
  for (std::vector<AlgorithmCosts>& task : costs) {
    for (AlgorithmCosts& its : task) {
      Shorten(its.seconds);
      Shorten(its.workspace_bytes);
    }
  }
  GraphFamily tabulated = family;
  tabulated.batches.assign(batches.begin(), batches.end());
  tabulated.costs = std::move(costs);
  if (absl::Status status = ValidateFamily(tabulated); !status.ok()) return status;
  family = std::move(tabulated);
  return absl::OkStatus();
}

}  // namespace tidepool
