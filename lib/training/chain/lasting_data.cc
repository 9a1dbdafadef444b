// SPDX-License-Identifier: Apache-2.0
// Counts, for each small datum, the places at which the larger data alone would let the chain be
// cut and at which the small datum is live.
#include "lib/training/chain/lasting_data.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "lib/training/chain/graph_walk.h"

namespace tidepool::chain {
namespace {

constexpr std::int64_t kSmall = 16384;  // times a small datum is less than all data of its kind

class LastingData {
 public:
  LastingData(const TaskGraph& graph, const GraphWalk& walk);

  bool IsLasting(std::size_t data) const {
    return IsMade(data) && IsSmall(data) && 2 * CutsAcross(data) > walk_.forward_tasks;
  }

 private:
  // Whether a forward task writes data that the chain would hold.
  bool IsMade(std::size_t data) const {
    return !IsResident(graph_.data[data]) && walk_.uses[data].writer < walk_.forward_tasks;
  }
  bool IsSmall(std::size_t data) const { return graph_.data[data].bytes <= bytes_ / kSmall; }
  std::size_t CutsAcross(std::size_t data) const;

  const TaskGraph& graph_;
  const GraphWalk& walk_;
  std::int64_t bytes_ = 0;
  // By forward task: the first backward task that uses data of the tasks before it. Small data,
  // which may last itself, does not count.
  std::vector<std::size_t> first_backward_;
};

LastingData::LastingData(const TaskGraph& graph, const GraphWalk& walk)
    : graph_(graph), walk_(walk), first_backward_(walk.forward_tasks + 1, kNoTask) {
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (IsMade(data)) bytes_ += graph.data[data].bytes;
  }
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (!IsMade(data) || IsSmall(data)) continue;
    std::size_t& first = first_backward_[walk.uses[data].writer + 1];
    first = std::min(first, walk.uses[data].first_backward);
  }
  std::partial_sum(first_backward_.begin(), first_backward_.end(), first_backward_.begin(),
                   [](std::size_t a, std::size_t b) { return std::min(a, b); });
}

// Returns how many places for cuts a datum takes: those between its writer and its last forward
// use, or those before its writer where data of the first part is used again before its own end.
std::size_t LastingData::CutsAcross(std::size_t data) const {
  const DataUses& uses = walk_.uses[data];
  const std::size_t forward = uses.last_forward - uses.writer;
  if (uses.last_backward == kNoTask) return forward;
  const auto begin = first_backward_.begin() + 1;
  const auto writer = first_backward_.begin() + static_cast<std::ptrdiff_t>(uses.writer) + 1;
  const auto in_use = std::partition_point(
      begin, writer, [&](std::size_t first) { return first > uses.last_backward; });
  return std::max(forward, static_cast<std::size_t>(writer - in_use));
}

}  // namespace

TaskGraph WithLastingData(const TaskGraph& graph, const std::vector<std::size_t>& algorithms) {
  const GraphWalk walk = WalkGraph(graph, algorithms);
  const LastingData lasting(graph, walk);
  TaskGraph seen = graph;
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (!lasting.IsLasting(data)) continue;
    // Chains leave the state of an optimizer on the device and out of their memory.
    seen.data[data].kind = DataKind::kOptimizerState;
    seen.data[data].before = seen.data[data].after = DataHome::kDevice;
  }
  return seen;
}

}  // namespace tidepool::chain
