// SPDX-License-Identifier: Apache-2.0
// Tasks beside each other on the compute streams of a device.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_CONCURRENT_ORDER_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_CONCURRENT_ORDER_H_

#include <cstddef>
#include <vector>

#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"

namespace tidepool::search {

// The tasks of a graph in the order in which they start on several streams.
struct ConcurrentOrder {
  // Each task takes the time until the next one starts, so that tasks one after the other take the
  // time of the streams: a search for one stream then knows how long copies have.
  TaskGraph graph;
  std::vector<std::size_t> tasks;  // their numbers in the whole graph
  bool is_faster = false;          // than one stream
};

// Schedules the tasks of a valid graph on 1 to kMostComputeStreams streams, without copies: of the
// tasks that can start, the one with the longest path of tasks to the end of the iteration starts
// first (Hu, "Parallel Sequencing and Assembly Line Problems", Operations Research 9, 1961). Tasks
// take their fastest algorithms. O((tasks + uses) log tasks).
ConcurrentOrder InConcurrentOrder(const TaskGraph& graph, std::size_t streams);

// Turns a valid schedule of the order's graph into one of the whole graph.
void RestoreTasks(const TaskGraph& graph, const ConcurrentOrder& order, Schedule& schedule);

// Gives each task of a valid schedule on one device the stream on which it starts first; of two
// such streams, the one that was busy last. Memory delays nothing here: addresses and granules make
// tasks wait when the schedule is lowered. O(steps + uses + tasks x streams).
void AssignStreams(const TaskGraph& graph, const Machine& machine, Schedule& schedule);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_CONCURRENT_ORDER_H_
