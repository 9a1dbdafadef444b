// SPDX-License-Identifier: Apache-2.0
// Cuts the graph without its small data, and looks for small data that crosses the cuts.
#include "lib/training/chain/lasting_data.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "lib/training/chain/chain_cuts.h"
#include "lib/training/chain/graph_walk.h"

namespace tidepool::chain {
namespace {

constexpr std::int64_t kSmall = 16384;  // times a small datum is less than all data of its kind

class LastingData {
 public:
  LastingData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms);

  // Whether a datum is small, and no cut beside its writer has all of its uses on one side.
  bool IsLasting(std::size_t data) const;

 private:
  // Whether a forward task writes data that the chain would hold.
  bool IsMade(std::size_t data) const {
    return !IsResident(graph_.data[data]) && walk_.uses[data].writer < walk_.forward_tasks;
  }
  bool IsSmall(std::size_t data) const {
    return IsMade(data) && graph_.data[data].bytes <= bytes_ / kSmall;
  }
  void FindCutsOfLargeData(const std::vector<std::size_t>& algorithms);

  const TaskGraph& graph_;
  const GraphWalk walk_;
  std::int64_t bytes_ = 0;
  std::vector<Cut> cuts_;  // of the graph without its small data, at a datum
};

LastingData::LastingData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms)
    : graph_(graph), walk_(WalkGraph(graph, algorithms)) {
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (IsMade(data)) bytes_ += graph.data[data].bytes;
  }
  FindCutsOfLargeData(algorithms);
}

void LastingData::FindCutsOfLargeData(const std::vector<std::size_t>& algorithms) {
  TaskGraph large = graph_;
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    if (IsSmall(data)) MakeResident(large.data[data]);
  }
  cuts_ = FindCuts(large, WalkGraph(large, algorithms));
  std::erase_if(cuts_, [](const Cut& cut) { return cut.separator == kNoTask; });
  for (std::size_t i = 1; i < cuts_.size(); ++i) {
    cuts_[i].latest = std::min(cuts_[i].latest, cuts_[i - 1].latest);
  }
}

bool LastingData::IsLasting(std::size_t data) const {
  if (!IsSmall(data)) return false;
  const DataUses& uses = walk_.uses[data];
  // Bounds of later cuts are lower, so the two cuts beside the writer decide.
  const auto after = std::partition_point(
      cuts_.begin(), cuts_.end(), [&](const Cut& cut) { return cut.forward <= uses.writer; });
  if (after != cuts_.end() &&
      (uses.last_forward >= after->forward || uses.first_backward < after->earliest)) {
    return true;
  }
  return after != cuts_.begin() && uses.last_backward != kNoTask &&
         uses.last_backward >= std::prev(after)->latest;
}

}  // namespace

void MakeResident(GraphData& data) {
  // Chains leave the state of an optimizer on the device and out of their memory.
  data.kind = DataKind::kOptimizerState;
  data.before = data.after = DataHome::kDevice;
}

TaskGraph WithLongLivedData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms,
                            std::int64_t part) {
  const GraphWalk walk = WalkGraph(graph, algorithms);
  const std::vector<std::int64_t> before = NeededBytesBefore(graph, walk);
  TaskGraph seen = graph;
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    const DataUses& uses = walk.uses[data];
    if (IsResident(graph.data[data]) || uses.writer >= walk.forward_tasks) continue;
    const std::int64_t meanwhile = before[uses.last_forward] - before[uses.writer + 1];
    if (meanwhile > 0 && meanwhile >= before.back() / part) MakeResident(seen.data[data]);
  }
  return seen;
}

TaskGraph WithLastingData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms) {
  const LastingData lasting(graph, algorithms);
  TaskGraph seen = graph;
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (lasting.IsLasting(data)) MakeResident(seen.data[data]);
  }
  return seen;
}

}  // namespace tidepool::chain
