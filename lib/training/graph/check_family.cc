// SPDX-License-Identifier: Apache-2.0
// Checks families: the table, then the graphs at its first and last batch. Sizes grow with the
// batch, so the sizes between them are in range too.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/graph/check_graph.h"
#include "lib/training/graph/family_at_batch.h"
#include "lib/training/graph/task_fault.h"

namespace tidepool::graph {
namespace {

using text::Quoted;
using About = GraphFault::About;

GraphFault OfFamily(std::string what) { return {About::kGraph, 0, std::move(what)}; }

std::optional<GraphFault> ListsFault(const GraphFamily& family) {
  const TaskGraph& graph = family.graph;
  if (family.bytes_per_sample.size() != graph.data.size()) {
    return OfFamily(absl::StrCat(family.bytes_per_sample.size(), " sizes per sample of ",
                                 graph.data.size(), " data, expected one for each"));
  }
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    const std::int64_t bytes = std::min(graph.data[i].bytes, family.bytes_per_sample[i]);
    if (bytes >= 0) continue;
    return GraphFault{About::kData, i,
                      absl::StrCat("data ", Quoted(graph.data[i].name), " has ", bytes,
                                   " bytes, expected 0 or more, fixed and per sample")};
  }
  if (family.batches.empty() && family.cost_model == nullptr) {
    return OfFamily("no batch in the table, expected at least one");
  }
  if (!family.batches.empty() && family.costs.size() != graph.tasks.size()) {
    return OfFamily(absl::StrCat("algorithms of ", family.costs.size(), " tasks for ",
                                 graph.tasks.size(), " tasks, expected a list for each"));
  }
  return std::nullopt;
}

std::optional<GraphFault> BatchesFault(const std::vector<std::int64_t>& batches) {
  std::int64_t before = 0;
  for (const std::int64_t batch : batches) {
    if (batch <= before || batch > kMostBatch) {
      return OfFamily(absl::StrCat("the batch ", batch, " after ", before,
                                   ", expected ascending batches from 1 to 2^40"));
    }
    before = batch;
  }
  return std::nullopt;
}

std::string CostsFault(const AlgorithmCosts& costs, std::size_t batches) {
  for (const std::size_t size : {costs.seconds.size(), costs.workspace_bytes.size()}) {
    if (size == 1 || size == batches) continue;
    return absl::StrCat("algorithm ", Quoted(costs.name), " has ", size,
                        " seconds or workspaces, expected 1 or ", batches,
                        ", the number of batches");
  }
  for (const double seconds : costs.seconds) {
    const bool is_missing = seconds == -1 && costs.seconds.size() > 1;
    if (is_missing || (seconds >= 0 && seconds <= kMostTaskSeconds)) continue;
    return absl::StrCat("algorithm ", Quoted(costs.name), " takes ", seconds,
                        " seconds, expected 0 to 10^9");
  }
  for (const std::int64_t bytes : costs.workspace_bytes) {
    if (bytes >= 0 && bytes <= kMostDataBytes) continue;
    return BytesFault(absl::StrCat("algorithm ", Quoted(costs.name), " has a workspace of"), bytes,
                      0);
  }
  return "";
}

// Returns the first batch of the table at which the task has no algorithm.
std::optional<std::int64_t> BatchWithoutAlgorithm(const std::vector<AlgorithmCosts>& costs,
                                                  const std::vector<std::int64_t>& batches) {
  std::vector<bool> has_algorithm(batches.size());
  for (const AlgorithmCosts& its : costs) {
    if (its.seconds.size() == 1 && its.seconds.front() >= 0) return std::nullopt;
    for (std::size_t i = 0; i < its.seconds.size(); ++i) {
      if (its.seconds[i] >= 0) has_algorithm[i] = true;
    }
  }
  const auto missing = std::find(has_algorithm.begin(), has_algorithm.end(), false);
  if (missing == has_algorithm.end()) return std::nullopt;
  return batches[static_cast<std::size_t>(missing - has_algorithm.begin())];
}

std::string TaskCostsFault(const std::vector<AlgorithmCosts>& costs,
                           const std::vector<std::int64_t>& batches) {
  NameSet names;
  for (const AlgorithmCosts& its : costs) {
    if (std::string what = NameFault(its.name, names); !what.empty()) return what;
    if (std::string what = CostsFault(its, batches.size()); !what.empty()) return what;
  }
  if (const auto batch = BatchWithoutAlgorithm(costs, batches); batch.has_value()) {
    return absl::StrCat("no algorithm at batch ", *batch, ", expected at least one");
  }
  return "";
}

std::optional<GraphFault> TableFault(const GraphFamily& family) {
  if (auto fault = BatchesFault(family.batches); fault.has_value()) return fault;
  for (std::size_t i = 0; i < family.costs.size(); ++i) {
    const std::string what = TaskCostsFault(family.costs[i], family.batches);
    if (what.empty()) continue;
    return GraphFault{About::kTask, i,
                      absl::StrCat("task ", Quoted(family.graph.tasks[i].name), ": ", what)};
  }
  return std::nullopt;
}

// Checks the graph at a batch. Without a table each task stands for one with an algorithm.
std::optional<GraphFault> FaultAt(const GraphFamily& family, std::int64_t batch) {
  TaskGraph graph = family.graph;
  if (auto fault = SetBatch(family, batch, graph); fault.has_value()) return fault;
  const std::optional<TablePlace> place = PlaceOf(family.batches, batch);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    graph.tasks[i].algorithms = {{"any", 0, 0}};
    if (place.has_value()) graph.tasks[i].algorithms = AlgorithmsAt(family.costs[i], *place);
  }
  return FindFault(graph);
}

}  // namespace

std::optional<GraphFault> FindFamilyFault(const GraphFamily& family) {
  if (auto fault = ListsFault(family); fault.has_value()) return fault;
  if (auto fault = TableFault(family); fault.has_value()) return fault;
  const std::int64_t least = family.batches.empty() ? 1 : family.batches.front();
  const std::int64_t most = family.batches.empty() ? 1 : family.batches.back();
  if (auto fault = FaultAt(family, least); fault.has_value()) return fault;
  return most == least ? std::nullopt : FaultAt(family, most);
}

}  // namespace tidepool::graph

namespace tidepool {

absl::Status ValidateFamily(const GraphFamily& family) {
  std::optional<graph::GraphFault> fault = graph::FindFamilyFault(family);
  if (!fault.has_value()) fault = graph::FindOrderFault(family.graph);
  return fault.has_value() ? absl::InvalidArgumentError(fault->what) : absl::OkStatus();
}

}  // namespace tidepool
