// SPDX-License-Identifier: Apache-2.0
// A walk through the tasks of a graph: when each datum is used, and the memory beside each task.
#ifndef TIDEPOOL_LIB_TRAINING_CHAIN_GRAPH_WALK_H_
#define TIDEPOOL_LIB_TRAINING_CHAIN_GRAPH_WALK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/training/graph/data_users.h"
#include "tidepool/training/graph.h"

namespace tidepool::chain {

using graph::kNoTask;

// Tasks by their positions in the graph; kNoTask: there is no such task.
struct DataUses {
  std::size_t writer = kNoTask;
  std::size_t last_forward = kNoTask;  // the last forward task that writes, reads or updates it
  std::size_t last_forward_update = kNoTask;
  std::size_t first_backward = kNoTask;  // tasks from the first that is not of the forward phase on
  std::size_t first_backward_update = kNoTask;
  std::size_t last_backward = kNoTask;
};

struct GraphWalk {
  std::size_t forward_tasks = 0;  // the forward tasks come first
  std::vector<DataUses> uses;     // by data
  // Bytes beside each task: data that is there while it runs, and its workspace.
  std::vector<std::int64_t> bytes;
  // After each task: bytes that backward tasks have written, and that are still used later.
  std::vector<std::int64_t> gradients_after;
  std::int64_t resident_peak = 0;  // most bytes of resident data at once
};

// Whether data is on the device outside the chain: weights, their gradients, optimizer state.
bool IsResident(const GraphData& data);

// Whether a repeated run of the task's part leaves the task out: all data that it changes is
// resident. `resident` is by data (GraphChain).
bool IsLeftOut(const GraphTask& task, const std::vector<bool>& resident);

// Walks through a valid graph. `algorithms` has one valid number for each task. O(tasks + data +
// uses).
GraphWalk WalkGraph(const TaskGraph& graph, const std::vector<std::size_t>& algorithms);

// Returns, by forward task, the bytes that the tasks before it write and backward tasks need.
std::vector<std::int64_t> NeededBytesBefore(const TaskGraph& graph, const GraphWalk& walk);

}  // namespace tidepool::chain

#endif  // TIDEPOOL_LIB_TRAINING_CHAIN_GRAPH_WALK_H_
