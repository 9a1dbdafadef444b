// SPDX-License-Identifier: Apache-2.0
// Families of known networks: two batches give the sizes, and the zoo's costs are the cost model.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/training/graph_family.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

absl::StatusOr<TaskGraph> ModelAt(const std::string& name, ModelOptions options,
                                  std::int64_t batch) {
  options.batch = batch;
  return MakeModel(name, options);
}

CostModel ZooCosts(const std::string& name, const ModelOptions& options) {
  return [name, options](TaskGraph& graph) -> absl::Status {
    absl::StatusOr<TaskGraph> made = ModelAt(name, options, graph.batch);
    if (!made.ok()) return made.status();
    if (made->data != graph.data) {
      return absl::InternalError(absl::StrCat(name, ": sizes at batch ", graph.batch,
                                              " are not on a straight line, expected a family"));
    }
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      graph.tasks[i].algorithms = std::move(made->tasks[i].algorithms);
    }
    return absl::OkStatus();
  };
}

}  // namespace

absl::StatusOr<GraphFamily> MakeModelFamily(std::string_view name, const ModelOptions& options,
                                            absl::Span<const std::int64_t> batches) {
  if (batches.empty()) {
    return absl::InvalidArgumentError("a family without batches, expected at least one");
  }
  const std::string model(name);
  // Two neighbouring batches give the sizes per sample, also of a family with one batch.
  std::vector<TaskGraph> graphs;
  for (const std::int64_t batch : {std::int64_t{1}, std::int64_t{2}}) {
    absl::StatusOr<TaskGraph> graph = ModelAt(model, options, batch);
    if (!graph.ok()) return graph.status();
    graphs.push_back(*std::move(graph));
  }
  absl::StatusOr<GraphFamily> family = MakeFamily(graphs);
  if (!family.ok()) return family.status();
  family->cost_model = ZooCosts(model, options);
  if (absl::Status status = TabulateCosts(batches, *family); !status.ok()) return status;
  return family;
}

}  // namespace tidepool
