// SPDX-License-Identifier: Apache-2.0
// The uses of each datum by the tasks of a graph, in the order in which they run.
#ifndef TIDEPOOL_POLICIES_TRAINING_MODNN_TASK_USES_H_
#define TIDEPOOL_POLICIES_TRAINING_MODNN_TASK_USES_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::modnn {

inline constexpr std::size_t kNoTask = std::numeric_limits<std::size_t>::max();

class TaskUses {
 public:
  explicit TaskUses(const TaskGraph& graph);

  // Returns the data of a task: that it reads or updates, then that it writes.
  const std::vector<std::size_t>& DataOf(std::size_t task) const { return data_[task]; }
  // Returns the first task at or after `task` that uses the datum, or kNoTask. O(log uses).
  std::size_t NextUse(std::size_t data, std::size_t task) const;
  // Returns the last task that uses the datum, or kNoTask.
  std::size_t LastUse(std::size_t data) const {
    return tasks_[data].empty() ? kNoTask : tasks_[data].back();
  }
  // Whether some task writes the datum, and so makes its first values of the iteration.
  bool IsWritten(std::size_t data) const { return is_written_[data]; }

 private:
  std::vector<std::vector<std::size_t>> data_;   // by task
  std::vector<std::vector<std::size_t>> tasks_;  // by datum, ascending
  std::vector<bool> is_written_;
};

}  // namespace tidepool::modnn

#endif  // TIDEPOOL_POLICIES_TRAINING_MODNN_TASK_USES_H_
