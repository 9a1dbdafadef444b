// SPDX-License-Identifier: Apache-2.0
// The runs of tasks on the compute stream, and the data that each of them needs last.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_TASK_RUNS_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_TASK_RUNS_H_

#include <cstddef>
#include <vector>

#include "tidepool/schedule/chain.h"

namespace tidepool::chain_policies {

// One run of a task. Data lives from a run that writes it to its last use before the next such run.
struct TaskRun {
  std::size_t task = 0;
  double start = 0;  // seconds
  double end = 0;
  std::vector<std::size_t> leaving = {};   // data that is made again before its next use
  std::vector<std::size_t> finished = {};  // data without a next use
};

class TaskRuns {
 public:
  explicit TaskRuns(const TaskGraph& graph) : graph_(graph), uses_(graph.data.size()) {}

  void Add(std::size_t task, double start, double end);
  // Fills in the data that leaves after each run. O(uses).
  void Finish();

  const std::vector<TaskRun>& runs() const { return runs_; }
  // Whether data is needed by a run from `position` on, before it is made again.
  bool IsNeeded(std::size_t data, std::size_t position) const;
  // Return the number of runs up to the last one before `position` that uses or makes the data; 0:
  // none does.
  std::size_t AfterUse(std::size_t data, std::size_t position) const;
  std::size_t AfterChange(std::size_t data, std::size_t position) const;

 private:
  struct Use {
    std::size_t run = 0;
    bool writes = false;
    bool changes = false;  // writes or updates
  };

  void AddUses(const std::vector<std::size_t>& data, bool writes, bool changes);

  const TaskGraph& graph_;
  std::vector<TaskRun> runs_;
  std::vector<std::vector<Use>> uses_;  // by data
};

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_TASK_RUNS_H_
