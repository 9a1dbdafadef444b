// SPDX-License-Identifier: Apache-2.0
// WalkSmallGraph: the fastest schedule of a small graph in pages, by a walk through all of them.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_SMALL_WALK_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_SMALL_WALK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "policies/training/transfers/graph_problem.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::search {

struct WalkOptions {
  std::int64_t memory_bytes = 0;
  std::int64_t granule = 1;
  transfers::CopyRates rates = {};  // copies are raw
  bool recomputes = true;
  bool offloads = true;         // whether data may leave that does not end on the host
  std::size_t most_states = 0;  // some hundred bytes each
  // Only schedules that take less time are looked for.
  double below_seconds = std::numeric_limits<double>::infinity();
  std::function<bool()> go_on = [] { return true; };
};

struct WalkAnswer {
  Schedule schedule;  // in pages; no steps: none was found
  double seconds = std::numeric_limits<double>::infinity();
  // Whether the walk came to its end. Then no schedule takes less than the smaller of `seconds` and
  // WalkOptions::below_seconds, of those that run the tasks in their order on one stream and copy
  // data as a whole.
  bool is_complete = false;
};

// Whether the walk knows all that the schedules of the graph may do, and the graph is small.
bool IsForWalk(const TaskGraph& graph);

// Returns the states of a walk in these seconds of work of a usual core. Graphs of up to 8 tasks
// have a few thousand.
constexpr double StatesIn(double work_seconds) { return 25'000 * work_seconds; }

// Walks through the states of an iteration: the tasks that have started, the data on the device and
// on the host, the task and the copies that run, and their ends. Tasks and copies start at ends of
// others, because any other start could be earlier, and data is dropped where something that starts
// has no room. States go in the order of their times with a bound on the rest (A*), and a state
// with the same data and no end later than in another one takes its place. Exponential in the data;
// `most_states` and `go_on` end it without an answer.
WalkAnswer WalkSmallGraph(const TaskGraph& graph, const WalkOptions& options);

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_SMALL_WALK_H_
