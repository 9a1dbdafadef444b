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

  // A forward pass: the tasks [begin, end), all of the forward phase. Where gradients add up, each
  // micro-batch has one.
  struct Pass {
    std::size_t begin = 0;
    std::size_t end = 0;

    std::size_t size() const { return end - begin; }
  };
  const std::vector<Pass>& passes() const { return passes_; }

  // Returns whether a task can run again: it may, no task changes its results, and none changes
  // data that it reads before its results are needed for the last time.
  bool CanRunAgain(std::size_t task) const { return can_run_again_[task]; }
  // Returns the bytes that a task writes and that tasks after its pass use.
  std::int64_t KeptBytes(std::size_t task) const { return kept_bytes_[task]; }

  // Returns the tasks that run again with a task, if its results are gone: the task itself, and
  // the tasks that write data that it needs, in turn. Results that are used after a pass are kept,
  // and not made again. O(their uses).
  std::vector<std::size_t> RunAgainWith(std::size_t task) const;

  // Returns tasks, in ascending order: at some moment the rest of the pass needs the results of
  // this one task of it alone.
  const std::vector<std::size_t>& cuts() const { return cuts_; }

  // Returns all tasks in their order. Tasks with `runs_again[task]`, of those that can, run again
  // right before the first task after their pass that uses their results. So do tasks with results
  // that these need and that are not kept. O(tasks + uses).
  std::vector<TaskRun> Make(const std::vector<bool>& runs_again) const;

  // Chooses neighbouring tasks of a pass at random, and lets all or none of them run again; in half
  // of the calls those at the same place in all passes of that length. There is at least one pass.
  // May change nothing. O(passes).
  void ChangeAtRandom(std::mt19937_64& random, std::vector<bool>& runs_again) const;

 private:
  void FindPasses();
  void FindWhatCanRunAgain();
  void FindKeptBytes();
  void FindCuts();
  // Whether `task` comes after the pass of the task that writes the datum.
  bool IsAfterPassOfWriter(std::size_t task, std::size_t data) const {
    return ends_[writers_[data]] > 0 && task >= ends_[writers_[data]];
  }

  const TaskGraph& graph_;
  std::vector<std::size_t> algorithms_;
  std::vector<Pass> passes_;
  std::size_t forward_tasks_ = 0;     // of all passes
  std::vector<std::size_t> ends_;     // by task: the end of its pass; 0: it is in none
  std::vector<std::size_t> writers_;  // by data; the number of tasks: none
  std::vector<bool> can_run_again_;
  std::vector<std::int64_t> kept_bytes_;
  std::vector<std::size_t> cuts_;
};

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_RERUN_ORDER_H_
