// SPDX-License-Identifier: Apache-2.0
#include "policies/training/sub_batch/task_memory.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "lib/training/graph/task_uses.h"
#include "policies/training/sub_batch/paper_values.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool::sub_batch {
namespace {

// A window of consecutive tasks: data that several of them use counts once.
class Window {
 public:
  Window(const TaskGraph& graph, const DataSizes& sizes,
         const std::vector<std::int64_t>& workspaces)
      : graph_(graph), sizes_(sizes), workspaces_(workspaces), users_(graph.data.size()) {}

  void Add(std::size_t task) {
    running_.insert(sizes_.Rounded(workspaces_[task]));
    for (const std::size_t data : graph::UsesOf(graph_.tasks[task])) {
      if (users_[data]++ == 0) bytes_ += sizes_.Moving(data);
    }
  }
  void Remove(std::size_t task) {
    running_.erase(running_.find(sizes_.Rounded(workspaces_[task])));
    for (const std::size_t data : graph::UsesOf(graph_.tasks[task])) {
      if (--users_[data] == 0) bytes_ -= sizes_.Moving(data);
    }
  }
  std::int64_t Bytes() const { return bytes_ + *running_.rbegin(); }

 private:
  const TaskGraph& graph_;
  const DataSizes& sizes_;
  const std::vector<std::int64_t>& workspaces_;
  std::vector<int> users_;
  std::multiset<std::int64_t> running_;  // the workspaces
  std::int64_t bytes_ = 0;
};

// Returns max(1, ceil(share x tasks)), also where the product is not exact.
std::size_t WindowOf(double share, std::size_t tasks) {
  constexpr double kPartOfTask = 1e-9;  // 0.07 x 100 tasks are 7.000000000000001 as a product
  const double exact = std::ceil(share * static_cast<double>(tasks) - kPartOfTask);
  return std::max<std::size_t>(static_cast<std::size_t>(std::max(exact, 0.0)), 1);
}

}  // namespace

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

std::vector<std::int64_t> FastestWorkspaces(const TaskGraph& graph) {
  std::vector<std::int64_t> workspaces;
  workspaces.reserve(graph.tasks.size());
  for (const GraphTask& task : graph.tasks) {
    workspaces.push_back(FastestOf(task).workspace_bytes);
  }
  return workspaces;
}

std::int64_t WindowBytes(const TaskGraph& graph, const DataSizes& sizes,
                         const std::vector<std::int64_t>& workspaces, double share) {
  std::vector<std::size_t> tasks;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    if (graph.tasks[task].phase != TaskPhase::kUpdate) tasks.push_back(task);
  }
  const std::size_t length = std::min(WindowOf(share, tasks.size()), tasks.size());
  Window window(graph, sizes, workspaces);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    window.Add(tasks[i]);
    if (i + 1 < length) continue;
    most = std::max(most, window.Bytes());
    window.Remove(tasks[i + 1 - length]);
  }
  return sizes.staying() + most;
}

std::int64_t ConsecutiveTaskBytes(const TaskGraph& graph, double share, std::int64_t alignment) {
  return WindowBytes(graph, SizesOf(graph, alignment, StayingData::kWeights),
                     FastestWorkspaces(graph), share);
}

}  // namespace tidepool::sub_batch
