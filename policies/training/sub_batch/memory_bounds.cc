// SPDX-License-Identifier: Apache-2.0
// Bounds of memory: equations (6) and (7), and figure 13.
#include <algorithm>

#include "policies/training/sub_batch/paper_values.h"
#include "policies/training/sub_batch/task_memory.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

using sub_batch::DataSizes;
using sub_batch::FastestOf;
using sub_batch::SizesOf;

std::int64_t AllDataBytes(const TaskGraph& graph, std::int64_t alignment) {
  const DataSizes sizes = SizesOf(graph, alignment, StayingData::kNone);
  std::int64_t bytes = 0;
  for (std::size_t data = 0; data < graph.data.size(); ++data) bytes += sizes.Moving(data);
  return bytes;
}

std::int64_t LargestWorkspace(const TaskGraph& graph, bool is_fastest) {
  std::int64_t largest = 0;
  for (const GraphTask& task : graph.tasks) {
    const TaskAlgorithm& algorithm = is_fastest ? FastestOf(task) : task.algorithms.front();
    largest = std::max(largest, algorithm.workspace_bytes);
  }
  return largest;
}

// Returns equation (6) with the fastest algorithms, for the largest task, and the data that stays.
std::int64_t LargestTaskByFastest(const TaskGraph& graph, std::int64_t alignment) {
  const DataSizes sizes = SizesOf(graph, alignment, StayingData::kWeights);
  std::int64_t largest = 0;
  for (const GraphTask& task : graph.tasks) {
    largest =
        std::max(largest, sizes.OfTask(task) + sizes.Rounded(FastestOf(task).workspace_bytes));
  }
  return sizes.staying() + largest;
}

}  // namespace

MemoryBound LeastMemory(const TaskGraph& graph, std::int64_t alignment, StayingData staying) {
  const DataSizes sizes = SizesOf(graph, alignment, staying);
  MemoryBound bound = {.bytes = sizes.staying(), .staying_bytes = sizes.staying()};
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    const GraphTask& one = graph.tasks[task];
    const std::int64_t bytes =
        sizes.staying() + sizes.OfTask(one) + sizes.Rounded(one.algorithms.front().workspace_bytes);
    if (bytes <= bound.bytes) continue;
    bound.bytes = bytes;
    bound.task = task;
  }
  return bound;
}

namespace sub_batch {

absl::StatusOr<TechniqueMemory> MemoryOfTechniques(const GraphFamily& family, std::int64_t batch,
                                                   std::int64_t alignment) {
  const absl::StatusOr<TaskGraph> whole = GraphAt(family, batch);
  if (!whole.ok()) return whole.status();
  const absl::StatusOr<TaskGraph> one = GraphAt(family, 1);
  if (!one.ok()) return one.status();
  return TechniqueMemory{
      .ideal = AllDataBytes(*whole, alignment) + LargestWorkspace(*whole, /*is_fastest=*/true),
      .algorithms =
          AllDataBytes(*whole, alignment) + LargestWorkspace(*whole, /*is_fastest=*/false),
      .sub_batches = AllDataBytes(*one, alignment) + LargestWorkspace(*one, /*is_fastest=*/true),
      .transfers = LargestTaskByFastest(*whole, alignment),
      .all = LeastMemory(*one, alignment).bytes,
      .all_without_weights = LeastMemory(*one, alignment, StayingData::kNone).bytes};
}

}  // namespace sub_batch
}  // namespace tidepool
