// SPDX-License-Identifier: Apache-2.0
// The time of a task by its fastest algorithm.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_LEAST_SECONDS_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_LEAST_SECONDS_H_

#include <algorithm>

#include "tidepool/training/graph.h"

namespace tidepool::graph {

// The task has an algorithm. O(algorithms).
inline double LeastSeconds(const GraphTask& task) {
  double least = task.algorithms.front().seconds;
  for (const TaskAlgorithm& algorithm : task.algorithms) least = std::min(least, algorithm.seconds);
  return least;
}

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_LEAST_SECONDS_H_
