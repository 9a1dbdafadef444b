// SPDX-License-Identifier: Apache-2.0
// The order of tasks when some of them run again instead of their results being kept.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_ORDER_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "policies/training/transfers/graph_problem.h"
#include "tidepool/training/graph.h"

namespace tidepool::transfers {

// Makes orders of a valid graph. Thread-safe.
class RerunOrder {
 public:
  // `algorithms` has one number for each task. Keeps the graph by reference.
  RerunOrder(const TaskGraph& graph, std::vector<std::size_t> algorithms);

  // Returns whether a task can run again: it may, and it comes before the first task that is not of
  // the forward phase.
  bool CanRunAgain(std::size_t task) const { return can_run_again_[task]; }
  // Returns the bytes that a task writes and that later phases use.
  std::int64_t KeptBytes(std::size_t task) const { return kept_bytes_[task]; }

  // Returns the tasks that run again with a task, if its results are gone: the task itself, and
  // the tasks that write data that it needs, in turn. Results that a later phase keeps are not made
  // again. O(their uses).
  std::vector<std::size_t> RunAgainWith(std::size_t task) const;

  // Returns the number of tasks of the forward phase, which come first.
  std::size_t forward_tasks() const { return forward_tasks_; }
  // Returns tasks of the forward phase: at some moment the rest of the phase needs the results of
  // this one task alone.
  const std::vector<std::size_t>& cuts() const { return cuts_; }

  // Returns all tasks in their order. Tasks with `runs_again[task]`, of those that can, run again
  // right before the first task after the forward phase that uses their results. So do tasks with
  // results that these need and that no later phase keeps. O(tasks + uses).
  std::vector<TaskRun> Make(const std::vector<bool>& runs_again) const;

  // Chooses neighbouring tasks of the forward phase at random, and lets all or none of them run
  // again. The phase has at least one task. May change nothing. O(1).
  void ChangeAtRandom(std::mt19937_64& random, std::vector<bool>& runs_again) const;

 private:
  void FindCuts();

  const TaskGraph& graph_;
  std::vector<std::size_t> algorithms_;
  std::size_t forward_tasks_ = 0;
  std::vector<std::size_t> writers_;  // by data; the number of tasks: none
  std::vector<bool> can_run_again_;
  std::vector<std::int64_t> kept_bytes_;
  std::vector<std::size_t> cuts_;
};

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_ORDER_H_
