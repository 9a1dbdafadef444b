// SPDX-License-Identifier: Apache-2.0
// Makes a kernel table of each task from the graphs at all micro-batches, and algorithms of its
// front.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/training/micro_batches.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace workspace {
namespace {

// The algorithms of one task, by number.
class TaskTable {
 public:
  void Add(const GraphTask& task, std::int64_t samples) {
    for (const TaskAlgorithm& algorithm : task.algorithms) {
      const auto [found, is_new] =
          numbers_.try_emplace(algorithm.name, static_cast<std::int64_t>(names_.size()));
      if (is_new) names_.push_back(algorithm.name);
      rows_.push_back({samples, found->second, algorithm.seconds, algorithm.workspace_bytes});
    }
  }

  // Returns the configurations, in ascending order of workspaces.
  std::vector<TaskAlgorithm> Configurations(const std::vector<std::int64_t>& sizes,
                                            std::int64_t batch) const {
    std::vector<TaskAlgorithm> algorithms;
    for (const KernelConfiguration& its :
         ConfigurationFront(rows_, sizes, batch, kMostWorkspaceBytes)) {
      algorithms.push_back(AlgorithmOf(its));
    }
    return algorithms;
  }

 private:
  TaskAlgorithm AlgorithmOf(const KernelConfiguration& configuration) const {
    TaskAlgorithm algorithm;
    algorithm.seconds = configuration.seconds;
    algorithm.workspace_bytes = configuration.workspace_bytes;
    for (const KernelPart& part : configuration.parts) {
      algorithm.micro_batches.push_back(
          {names_[static_cast<std::size_t>(part.algorithm)], part.micro_batch});
    }
    if (algorithm.micro_batches.size() > 1) {
      algorithm.name = NameOf(algorithm.micro_batches);
    } else {
      algorithm.name = algorithm.micro_batches.front().algorithm;
      algorithm.micro_batches.clear();
    }
    return algorithm;
  }

  // Returns such a name as "8 x 32 by fft + 1 x 16 by gemm".
  static std::string NameOf(const std::vector<MicroBatch>& parts) {
    std::string name;
    for (std::size_t first = 0; first < parts.size();) {
      std::size_t next = first;
      while (next < parts.size() && parts[next] == parts[first]) ++next;
      absl::StrAppend(&name, first == 0 ? "" : " + ", next - first, " x ", parts[first].samples,
                      " by ", parts[first].algorithm);
      first = next;
    }
    return name;
  }

  std::map<std::string, std::int64_t> numbers_;
  std::vector<std::string> names_;
  KernelTable rows_;
};

}  // namespace
}  // namespace workspace

bool TreatsSamplesApart(const GraphTask& task) {
  if (task.phase == TaskPhase::kUpdate) return false;
  return std::visit(
      [&](const auto& its) {
        using Layer = std::decay_t<decltype(its)>;
        if constexpr (std::is_same_v<Layer, NormalizationParameters>) {
          return its.n > 0 && task.operation != "batch-norm";
        } else if constexpr (std::is_same_v<Layer, ConvolutionParameters> ||
                             std::is_same_v<Layer, LinearParameters> ||
                             std::is_same_v<Layer, MatrixProductParameters> ||
                             std::is_same_v<Layer, PoolingParameters> ||
                             std::is_same_v<Layer, AttentionParameters>) {
          return its.n > 0;
        } else {
          return false;
        }
      },
      task.parameters);
}

absl::StatusOr<TaskGraph> GraphInMicroBatches(const GraphFamily& family, std::int64_t batch,
                                              std::string_view policy) {
  if (batch > kMostKernelBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro-batches of ", batch, " samples, expected up to ", kMostKernelBatch));
  }
  absl::StatusOr<TaskGraph> graph = GraphAt(family, batch);
  if (!graph.ok()) return graph;
  absl::StatusOr<std::vector<std::int64_t>> sizes = MicroBatchSizes(policy, batch);
  if (!sizes.ok()) return sizes.status();
  std::erase_if(*sizes, [&](std::int64_t size) { return size > batch; });
  std::vector<workspace::TaskTable> tables(graph->tasks.size());
  for (const std::int64_t size : *sizes) {
    const absl::StatusOr<TaskGraph> part = GraphAt(family, size);
    if (!part.ok()) return part.status();
    for (std::size_t i = 0; i < tables.size(); ++i) tables[i].Add(part->tasks[i], size);
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    GraphTask& task = graph->tasks[i];
    if (!TreatsSamplesApart(task)) continue;
    std::vector<TaskAlgorithm> configurations = tables[i].Configurations(*sizes, batch);
    if (!configurations.empty()) task.algorithms = std::move(configurations);
  }
  return graph;
}

}  // namespace tidepool
