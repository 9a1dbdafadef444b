// SPDX-License-Identifier: Apache-2.0
// Finds the family of a few graphs that differ in their batch alone.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/graph/layer_fields.h"
#include "tidepool/training/graph_family.h"

namespace tidepool {
namespace {

using text::Quoted;

absl::Status Unlike(const std::string& part, const TaskGraph& graph) {
  return absl::InvalidArgumentError(absl::StrCat(part, " of the graph at batch ", graph.batch,
                                                 " differs from that of the first graph in more ",
                                                 "than the batch, expected one family"));
}

// Divides the number of samples by the batch. Returns false if the batch does not divide it.
bool DivideSamples(std::int64_t batch, LayerParameters& parameters) {
  bool divides = true;
  graph::ForEachField(parameters, [&](const auto& field, std::int64_t& number) {
    if (field.name != "n") return;
    divides = number % batch == 0;
    number /= batch;
  });
  return divides;
}

// Returns the task without its batch and its costs; no value if it depends on the batch otherwise.
std::optional<GraphTask> WithoutBatch(GraphTask task, std::int64_t batch) {
  if (!DivideSamples(batch, task.parameters)) return std::nullopt;
  for (const TaskAlgorithm& algorithm : task.algorithms) {
    if (!algorithm.micro_batches.empty()) return std::nullopt;
  }
  task.algorithms.clear();
  return task;
}

absl::Status CheckTasks(const TaskGraph& graph, const std::vector<GraphTask>& tasks) {
  if (graph.tasks.size() != tasks.size()) return Unlike("the number of tasks", graph);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (WithoutBatch(graph.tasks[i], graph.batch) == tasks[i]) continue;
    return Unlike(absl::StrCat("task ", Quoted(graph.tasks[i].name)), graph);
  }
  return absl::OkStatus();
}

bool HasSize(const GraphData& data, std::int64_t fixed, std::int64_t per_sample,
             std::int64_t batch) {
  std::int64_t product = 0;
  return fixed >= 0 && per_sample >= 0 && !__builtin_mul_overflow(per_sample, batch, &product) &&
         data.bytes - product == fixed;
}

absl::Status CheckData(const TaskGraph& graph, const GraphFamily& family) {
  if (graph.data.size() != family.graph.data.size()) return Unlike("the number of data", graph);
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    GraphData data = graph.data[i];
    const GraphData& its = family.graph.data[i];
    const bool has_size = HasSize(data, its.bytes, family.bytes_per_sample[i], graph.batch);
    data.bytes = its.bytes;
    if (!has_size || data != its) {
      return Unlike(absl::StrCat("data ", Quoted(graph.data[i].name)), graph);
    }
  }
  return absl::OkStatus();
}

// Splits the sizes of the first graph into fixed parts and parts per sample, by the second graph.
void SplitSizes(const TaskGraph& second, GraphFamily& family) {
  const std::int64_t batch = family.graph.batch;
  for (std::size_t i = 0; i < family.graph.data.size(); ++i) {
    std::int64_t& bytes = family.graph.data[i].bytes;
    const bool is_there = i < second.data.size();  // CheckData refuses the graph otherwise
    const std::int64_t more = is_there ? second.data[i].bytes - bytes : 0;
    const std::int64_t per_sample = more / (second.batch - batch);
    family.bytes_per_sample.push_back(per_sample);
    std::int64_t product = 0;
    if (!__builtin_mul_overflow(per_sample, batch, &product)) bytes -= product;
  }
}

absl::Status CheckBatches(absl::Span<const TaskGraph> graphs) {
  if (graphs.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a family of ", graphs.size(), " graphs, expected two or more"));
  }
  std::int64_t before = 0;
  for (const TaskGraph& graph : graphs) {
    if (graph.batch <= before) {
      return absl::InvalidArgumentError(absl::StrCat("the batch ", graph.batch, " after ", before,
                                                     ", expected ascending batches from 1"));
    }
    before = graph.batch;
    if (absl::Status status = ValidateGraph(graph); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Makes the part of the family that is equal in all graphs.
absl::StatusOr<GraphFamily> MakeShape(absl::Span<const TaskGraph> graphs) {
  GraphFamily family;
  family.graph = graphs.front();
  SplitSizes(graphs[1], family);
  for (GraphTask& task : family.graph.tasks) {
    std::optional<GraphTask> plain = WithoutBatch(std::move(task), family.graph.batch);
    if (!plain.has_value()) return Unlike("a task", graphs.front());
    task = *std::move(plain);
  }
  family.graph.batch = 0;
  for (const TaskGraph& graph : graphs) {
    if (graph.gpu != family.graph.gpu) return Unlike("the GPU", graph);
    if (absl::Status status = CheckData(graph, family); !status.ok()) return status;
    if (absl::Status status = CheckTasks(graph, family.graph.tasks); !status.ok()) return status;
  }
  return family;
}

}  // namespace

absl::StatusOr<GraphFamily> MakeFamily(absl::Span<const TaskGraph> graphs) {
  if (absl::Status status = CheckBatches(graphs); !status.ok()) return status;
  absl::StatusOr<GraphFamily> family = MakeShape(graphs);
  if (!family.ok()) return family.status();
  std::vector<std::int64_t> batches;
  for (const TaskGraph& graph : graphs) batches.push_back(graph.batch);
  // The graphs are the cost model of their batches.
  family->cost_model = [&](TaskGraph& graph) {
    const auto same_batch = [&](const TaskGraph& its) { return its.batch == graph.batch; };
    const TaskGraph& its = *std::find_if(graphs.begin(), graphs.end(), same_batch);
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      graph.tasks[i].algorithms = its.tasks[i].algorithms;
    }
    return absl::OkStatus();
  };
  absl::Status status = TabulateCosts(batches, *family);
  family->cost_model = nullptr;
  if (!status.ok()) return status;
  return family;
}

}  // namespace tidepool
