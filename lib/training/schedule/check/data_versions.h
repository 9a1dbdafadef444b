// SPDX-License-Identifier: Apache-2.0
// Versions of data: the task that writes a datum makes version 1, and each update the next one.
// Data that exists before the iteration begins with version 0. The order of the graph says which
// version each task needs. A task that runs again needs the version of its first run.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_DATA_VERSIONS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_DATA_VERSIONS_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::schedule {

class DataVersions {
 public:
  static constexpr std::size_t kNoTask = std::numeric_limits<std::size_t>::max();

  // The state of a datum that a task needs before it reads or updates it.
  struct Need {
    int version = 0;
    std::size_t uses = 0;  // reads and updates that come before an update
  };
  struct Datum {
    std::size_t writer = kNoTask;
    int after_round = 0;      // the version after all tasks that are no updates of weights
    int after_iteration = 0;  // the version after all tasks
    std::size_t uses = 0;     // reads and updates by all tasks
  };

  // Counts in the order of the tasks of a valid graph. O(uses).
  explicit DataVersions(const TaskGraph& graph);

  const Datum& operator[](std::size_t data) const { return data_[data]; }
  // Returns the needs of a task: one for each read, then one for each update.
  const Need* NeedsOf(std::size_t task) const { return needs_.data() + first_need_[task]; }

 private:
  void Count(const GraphTask& task, std::size_t index);

  std::vector<Datum> data_;
  std::vector<Need> needs_;
  std::vector<std::size_t> first_need_;  // by task
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_DATA_VERSIONS_H_
