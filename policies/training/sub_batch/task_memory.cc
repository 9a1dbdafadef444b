// SPDX-License-Identifier: Apache-2.0
#include "policies/training/sub_batch/task_memory.h"

#include <algorithm>
#include <utility>

#include "lib/training/graph/task_uses.h"

namespace tidepool::sub_batch {

bool Stays(const GraphData& data, StayingData staying) {
  if (staying == StayingData::kNone) return false;
  if (data.after == DataHome::kDevice) return true;
  return staying == StayingData::kWeights &&
         (data.kind == DataKind::kWeight || data.kind == DataKind::kWeightGradient ||
          data.kind == DataKind::kOptimizerState);
}

const TaskAlgorithm& FastestOf(const GraphTask& task) {
  return *std::min_element(
      task.algorithms.begin(), task.algorithms.end(),
      [](const TaskAlgorithm& a, const TaskAlgorithm& b) { return a.seconds < b.seconds; });
}

DataSizes::DataSizes(const TaskGraph& graph, std::vector<std::int64_t> bytes,
                     std::int64_t alignment, StayingData staying)
    : alignment_(alignment), moving_(std::move(bytes)) {
  for (std::size_t data = 0; data < moving_.size(); ++data) {
    moving_[data] = Rounded(moving_[data]);
    if (!Stays(graph.data[data], staying)) continue;
    staying_ += std::exchange(moving_[data], 0);
  }
}

std::int64_t DataSizes::OfTask(const GraphTask& task) const {
  std::int64_t bytes = 0;
  for (const std::size_t data : graph::UsesOf(task)) bytes += moving_[data];
  return bytes;
}

DataSizes SizesOf(const TaskGraph& graph, std::int64_t alignment, StayingData staying) {
  std::vector<std::int64_t> bytes;
  bytes.reserve(graph.data.size());
  for (const GraphData& data : graph.data) bytes.push_back(data.bytes);
  return {graph, std::move(bytes), alignment, staying};
}

}  // namespace tidepool::sub_batch
