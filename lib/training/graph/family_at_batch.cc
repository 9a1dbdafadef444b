// SPDX-License-Identifier: Apache-2.0
// Computes sizes, layer parameters and costs at a batch.
#include "lib/training/graph/family_at_batch.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/graph/layer_fields.h"

namespace tidepool::graph {
namespace {

// Sets `sum` to fixed + per_sample x batch. Returns false for a sum above `most`.
bool AtBatch(std::int64_t fixed, std::int64_t per_sample, std::int64_t batch, std::int64_t most,
             std::int64_t* sum) {
  std::int64_t product = 0;
  return !__builtin_mul_overflow(per_sample, batch, &product) &&
         !__builtin_add_overflow(fixed, product, sum) && *sum <= most;
}

// Multiplies the number of samples. Returns false above the limit.
bool SetSamples(std::int64_t batch, LayerParameters& parameters) {
  bool fits = true;
  ForEachField(parameters, [&](const auto& field, std::int64_t& number) {
    if (field.name == "n") fits = AtBatch(0, number, batch, kMostLayerNumber, &number);
  });
  return fits;
}

template <typename Number>
Number NumberAt(const std::vector<Number>& numbers, std::size_t batch) {
  return numbers[numbers.size() == 1 ? 0 : batch];
}

}  // namespace

std::optional<GraphFault> SetBatch(const GraphFamily& family, std::int64_t batch,
                                   TaskGraph& graph) {
  graph.batch = batch;
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    GraphData& data = graph.data[i];
    const std::int64_t fixed = data.bytes;
    const std::int64_t per_sample = family.bytes_per_sample[i];
    if (AtBatch(fixed, per_sample, batch, kMostDataBytes, &data.bytes)) continue;
    return GraphFault{
        GraphFault::About::kData, i,
        absl::StrCat("data ", text::Quoted(data.name), " has ", fixed, " + ", per_sample, " x ",
                     batch, " bytes at batch ", batch, ", expected at most 2^50")};
  }
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (SetSamples(batch, graph.tasks[i].parameters)) continue;
    return GraphFault{
        GraphFault::About::kTask, i,
        absl::StrCat("task ", text::Quoted(graph.tasks[i].name),
                     " has more than 2^40 samples at batch ", batch, ", expected at most 2^40")};
  }
  return std::nullopt;
}

std::optional<TablePlace> PlaceOf(const std::vector<std::int64_t>& batches, std::int64_t batch) {
  const auto after = std::lower_bound(batches.begin(), batches.end(), batch);
  if (after == batches.end() || (after == batches.begin() && *after != batch)) return std::nullopt;
  const auto at = static_cast<std::size_t>(after - batches.begin());
  if (*after == batch) return TablePlace{at, at, 0};
  const std::int64_t before = batches[at - 1];
  return TablePlace{at - 1, at,
                    static_cast<double>(batch - before) / static_cast<double>(*after - before)};
}

void SortByWorkspace(std::vector<TaskAlgorithm>& algorithms) {
  std::stable_sort(algorithms.begin(), algorithms.end(),
                   [](const TaskAlgorithm& a, const TaskAlgorithm& b) {
                     return a.workspace_bytes < b.workspace_bytes;
                   });
}

std::vector<TaskAlgorithm> AlgorithmsAt(const std::vector<AlgorithmCosts>& costs,
                                        const TablePlace& place) {
  std::vector<TaskAlgorithm> algorithms;
  for (const AlgorithmCosts& its : costs) {
    const double before = NumberAt(its.seconds, place.before);
    const double after = NumberAt(its.seconds, place.after);
    if (before < 0 || after < 0) continue;
    algorithms.push_back({its.name, before + (after - before) * place.share,
                          std::max(NumberAt(its.workspace_bytes, place.before),
                                   NumberAt(its.workspace_bytes, place.after))});
  }
  SortByWorkspace(algorithms);
  return algorithms;
}

}  // namespace tidepool::graph
