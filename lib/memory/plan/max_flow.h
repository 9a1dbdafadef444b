// SPDX-License-Identifier: Apache-2.0
// The maximum flow through a network, by Dinic's algorithm (1970).
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_MAX_FLOW_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_MAX_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tidepool::plan {

// Not thread-safe.
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

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_MAX_FLOW_H_
