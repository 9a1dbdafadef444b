// SPDX-License-Identifier: Apache-2.0
// RepeatedSearch: an iteration in which all micro-batches do the same.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_REPEATED_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_REPEATED_SEARCH_H_

#include <cstddef>
#include <vector>

#include "lib/training/chain/micro_batches.h"
#include "policies/training/search/algorithm_choices.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/graph.h"

namespace tidepool::search {

// Where gradients add up over micro-batches, these are alike. So a search for one of them in its
// middle, with a part of the tasks, serves all: it tries as many more iterations in the same work.
class RepeatedSearch {
 public:
  // The graph is valid, and outlives the search. O(tasks log tasks + data + uses).
  explicit RepeatedSearch(const TaskGraph& graph);

  // Whether the graph has at least two micro-batches, and most tasks have a twin in each.
  bool is_useful() const { return is_useful_; }
  // Searches for an iteration of one micro-batch (SearchIteration), and returns the iteration of
  // the graph in which the twins of its tasks run again, and the same data of them leaves. Other
  // data leaves until all operations fit. Its time is infinite if none was found that fits.
  transfers::Iteration Search(const Algorithms& algorithms,
                              const transfers::IterationOptions& options,
                              const transfers::GoOn& go_on,
                              const transfers::GoOn& go_on_sending) const;

 private:
  void FindTwins();
  transfers::Iteration Repeat(const transfers::Iteration& found, const Algorithms& algorithms,
                              const transfers::IterationOptions& options, bool idle_leaves) const;
  std::vector<bool> AwayIn(const transfers::Iteration& iteration, const transfers::Iteration& found,
                           bool idle_leaves) const;
  std::vector<std::size_t> FirstRuns(const transfers::Iteration& iteration) const;

  const TaskGraph& graph_;
  const chain::MicroBatches micro_batches_;
  std::size_t searched_ = 0;        // the number of a micro-batch
  TaskGraph part_;                  // of that micro-batch
  TaskGraph busy_;                  // without the data that stays on the device beside it
  std::int64_t idle_bytes_ = 0;     // of that data
  std::vector<std::size_t> twins_;  // by task: the number of its twin in the part, or of its tasks
  bool is_useful_ = false;
};

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_REPEATED_SEARCH_H_
