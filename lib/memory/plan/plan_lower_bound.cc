// SPDX-License-Identifier: Apache-2.0
// A lower bound of all plans: that of each instance, and for several streams that of their cuts.
// Splits each stream at its waits and where it is waited for. Inside a segment no wait matters, so
// the best place for a cut there is the one with the most live bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/planner.h"
#include "lib/memory/plan/reuse_times.h"

namespace tidepool::plan {
namespace {

// The maximum flow through a network, by Dinic's algorithm (1970), which sends flow along shortest
// paths. Paths are kept in a list, because recursion could be deep. Not thread-safe.
class FlowNetwork {
 public:
  explicit FlowNetwork(std::size_t nodes) : edges_from_(nodes) {}

  void AddEdge(std::size_t from, std::size_t to, std::int64_t capacity);
  // Returns the maximum flow, which fits 63 bits; no value when it takes more than `most_steps`
  // looks at edges. May be called once. O(nodes^2 edges), and mostly far less.
  std::optional<std::int64_t> MaxFlow(std::size_t source, std::size_t sink,
                                      std::int64_t most_steps);

 private:
  struct Edge {
    std::size_t to;
    std::int64_t capacity;  // that is left
  };

  // Computes the distance of each node from the source. Returns whether the sink can be reached.
  bool FindLevels(std::size_t source, std::size_t sink);
  // Finds a path of the levels, and returns its flow; 0 without one.
  std::int64_t Augment(std::size_t source, std::size_t sink);

  std::vector<Edge> edges_;  // each before its reverse: edge i has the reverse i ^ 1
  std::vector<std::vector<std::size_t>> edges_from_;
  std::vector<std::size_t> level_;
  std::vector<std::size_t> next_;  // by node: the first edge that may still lead to the sink
  std::vector<std::size_t> path_;  // edges
  std::int64_t steps_left_ = 0;
};

constexpr std::size_t kUnreached = SIZE_MAX;

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

constexpr std::int64_t kMostSteps = 50'000'000;  // well below a second

// An allocation, a free, or a wait, which has no bytes.
struct Change {
  std::int64_t time;
  std::int64_t bytes;

  // Frees come before waits at the same time, and allocations after them.
  bool operator<(const Change& other) const {
    return std::tie(time, bytes) < std::tie(other.time, other.bytes);
  }
};

// The changes of a stream. A segment begins after each number of changes in `splits`, and with no
// change.
struct Stream {
  std::vector<Change> changes;
  std::vector<std::size_t> splits;
  std::size_t first_node = 0;  // one node a split: the cut has at least one change for each

  // Return the number of changes up to a wait of this stream, and before a wait for it.
  std::size_t WaitingPosition(const PlanWait& wait) const {
    return static_cast<std::size_t>(
        std::lower_bound(changes.begin(), changes.end(), Change{wait.time, 0}) - changes.begin() +
        1);
  }
  std::size_t AwaitedPosition(const PlanWait& wait) const {
    return static_cast<std::size_t>(
        std::upper_bound(changes.begin(), changes.end(), Change{wait.time, 0}) - changes.begin());
  }
  std::size_t NodeOf(std::size_t position) const {
    return first_node +
           static_cast<std::size_t>(std::lower_bound(splits.begin(), splits.end(), position) -
                                    splits.begin());
  }
  // Returns the most live bytes in each segment. The end of a segment is the start of the next.
  std::vector<std::int64_t> SegmentPeaks() const {
    std::vector<std::int64_t> peaks = {0};
    std::int64_t live = 0;
    for (std::size_t i = 0; i <= changes.size(); ++i) {
      if (i > 0) live += changes[i - 1].bytes;
      if (std::binary_search(splits.begin(), splits.end(), i)) peaks.push_back(live);
      peaks.back() = std::max(peaks.back(), live);
    }
    return peaks;
  }
};

class CutBound {
 public:
  explicit CutBound(const PlanProblem& problem) : streams_(StreamsOf(problem)) {
    for (const PlanBuffer& buffer : problem.buffers) {
      streams_[buffer.stream].changes.push_back({buffer.lower, buffer.bytes});
      streams_[buffer.free_stream].changes.push_back({buffer.upper, -buffer.bytes});
    }
    for (const PlanWait& wait : problem.waits) {
      streams_[wait.stream].changes.push_back({wait.time, 0});
    }
    for (Stream& stream : streams_) std::sort(stream.changes.begin(), stream.changes.end());
    for (const PlanWait& wait : problem.waits) Split(wait);
    for (Stream& stream : streams_) {
      std::sort(stream.splits.begin(), stream.splits.end());
      stream.splits.erase(std::unique(stream.splits.begin(), stream.splits.end()),
                          stream.splits.end());
      stream.first_node = nodes_;
      nodes_ += stream.splits.size();
    }
  }

  std::int64_t Find(const std::vector<PlanWait>& waits) const {
    FlowNetwork network(nodes_ + 2);
    const std::size_t source = nodes_;
    const std::size_t sink = nodes_ + 1;
    std::int64_t bound = 0;
    for (const Stream& stream : streams_) {
      const std::vector<std::int64_t> peaks = stream.SegmentPeaks();
      bound += peaks.front();
      for (std::size_t i = 0; i < stream.splits.size(); ++i) {
        const std::size_t node = stream.first_node + i;
        const std::int64_t gain = peaks[i + 1] - peaks[i];
        bound += std::max<std::int64_t>(gain, 0);
        if (gain > 0) network.AddEdge(source, node, gain);
        if (gain < 0) network.AddEdge(node, sink, -gain);
        if (i > 0) network.AddEdge(node, node - 1, kUnlimited);
      }
    }
    for (const PlanWait& wait : waits) {
      if (wait.stream == wait.awaited) continue;
      const Stream& waiting = streams_[wait.stream];
      const Stream& awaited = streams_[wait.awaited];
      network.AddEdge(waiting.NodeOf(waiting.WaitingPosition(wait)),
                      awaited.NodeOf(awaited.AwaitedPosition(wait)), kUnlimited);
    }
    const std::optional<std::int64_t> flow = network.MaxFlow(source, sink, kMostSteps);
    return flow.has_value() ? bound - *flow : 0;
  }

 private:
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;

  void Split(const PlanWait& wait) {
    streams_[wait.stream].splits.push_back(streams_[wait.stream].WaitingPosition(wait));
    streams_[wait.awaited].splits.push_back(streams_[wait.awaited].AwaitedPosition(wait));
  }

  std::vector<Stream> streams_;
  std::size_t nodes_ = 0;
};

// Returns the most bytes that are live at a consistent cut: a prefix of each stream's events, such
// that every wait inside has the events that it waits for inside, too. Buffers that are live at a
// cut need disjoint addresses pairwise. If every buffer is freed on its own stream, no set of such
// buffers has more bytes. The best cut is a maximum closure (Picard 1976). Returns 0 where the
// network flow takes too long. O(n log n) without waits.
std::int64_t BoundByCuts(const PlanProblem& problem) {
  return CutBound(problem).Find(problem.waits);
}

std::int64_t BoundOfInstances(const PlanProblem& problem) {
  std::int64_t bound = 0;
  for (const Instance& instance : ToInstances(problem)) {
    bound = std::max(bound, instance.lower_bound * instance.unit);
  }
  return bound;
}

PlanProblem WithoutStreams(PlanProblem problem) {
  for (PlanBuffer& buffer : problem.buffers) buffer.stream = buffer.free_stream = 0;
  problem.waits.clear();
  return problem;
}

}  // namespace

std::int64_t LowerBoundOf(const PlanProblem& problem) {
  if (!HasSeveralStreams(problem)) return BoundOfInstances(problem);
  return std::max(BoundOfInstances(WithoutStreams(problem)), BoundByCuts(problem));
}

}  // namespace tidepool::plan
