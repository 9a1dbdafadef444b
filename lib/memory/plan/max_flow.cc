// SPDX-License-Identifier: Apache-2.0
// Sends flow along shortest paths. Paths are kept in a list, because recursion could be deep.
#include "lib/memory/plan/max_flow.h"

#include <algorithm>

namespace tidepool::plan {
namespace {

constexpr std::size_t kUnreached = SIZE_MAX;

}  // namespace

void FlowNetwork::AddEdge(std::size_t from, std::size_t to, std::int64_t capacity) {
  edges_from_[from].push_back(edges_.size());
  edges_.push_back({to, capacity});
  edges_from_[to].push_back(edges_.size());
  edges_.push_back({from, 0});
}

std::optional<std::int64_t> FlowNetwork::MaxFlow(std::size_t source, std::size_t sink,
                                                 std::int64_t most_steps) {
  steps_left_ = most_steps;
  std::int64_t flow = 0;
  while (FindLevels(source, sink)) {
    next_.assign(edges_from_.size(), 0);
    while (const std::int64_t more = Augment(source, sink)) flow += more;
  }
  if (steps_left_ <= 0) return std::nullopt;
  return flow;
}

bool FlowNetwork::FindLevels(std::size_t source, std::size_t sink) {
  level_.assign(edges_from_.size(), kUnreached);
  level_[source] = 0;
  std::vector<std::size_t> reached = {source};
  for (std::size_t i = 0; i < reached.size() && level_[sink] == kUnreached; ++i) {
    for (const std::size_t edge : edges_from_[reached[i]]) {
      const auto [to, capacity] = edges_[edge];
      if (capacity == 0 || level_[to] != kUnreached) continue;
      level_[to] = level_[reached[i]] + 1;
      reached.push_back(to);
    }
    steps_left_ -= static_cast<std::int64_t>(edges_from_[reached[i]].size());
  }
  return level_[sink] != kUnreached && steps_left_ > 0;
}

std::int64_t FlowNetwork::Augment(std::size_t source, std::size_t sink) {
  path_.clear();
  for (std::size_t node = source; node != sink && steps_left_ > 0;) {
    std::size_t& next = next_[node];
    for (; next < edges_from_[node].size(); ++next, --steps_left_) {
      const Edge& edge = edges_[edges_from_[node][next]];
      if (edge.capacity > 0 && level_[edge.to] == level_[node] + 1) break;
    }
    if (next < edges_from_[node].size()) {
      path_.push_back(edges_from_[node][next]);
      node = edges_[path_.back()].to;
      --steps_left_;
    } else if (node == source) {
      return 0;
    } else {
      node = edges_[path_.back() ^ 1].to;
      path_.pop_back();
      ++next_[node];
    }
  }
  if (steps_left_ <= 0) return 0;
  std::int64_t flow = INT64_MAX;
  for (const std::size_t edge : path_) flow = std::min(flow, edges_[edge].capacity);
  for (const std::size_t edge : path_) {
    edges_[edge].capacity -= flow;
    edges_[edge ^ 1].capacity += flow;
  }
  return flow;
}

}  // namespace tidepool::plan
