// SPDX-License-Identifier: Apache-2.0
// LeastSecondsOfTasks: a bound from the copies that the link must carry between two tasks.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_LINK_WINDOWS_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_LINK_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidepool/training/machine.h"

namespace tidepool::schedule {

// Tasks that run one after the other: task k is the one at position k. The position after the last
// one is the end of the iteration.
struct TaskInOrder {
  double seconds = 0;
  std::int64_t own_bytes = 0;       // of its data and workspace, which are in memory while it runs
  std::int64_t arriving_bytes = 0;  // that come from their home on the host for this task first
};

// The positions [begin, end) at which a datum exists and no task uses it. Its memory may hold other
// data then.
struct Absence {
  std::size_t begin = 0;
  std::size_t end = 0;      // the position of the next use; after the last position: none
  std::size_t written = 0;  // after this number of tasks a copy on the host is not stale
  std::int64_t bytes = 0;
  bool is_clean = false;  // the host has a copy without any transfer
};

// Returns seconds that no schedule beats. Between the end of one task and the start of another, the
// link sends the data that must be away at a task between them and that was written no earlier; and
// it fetches the data that had to be away before and is used until then. The bound is the longest
// path through these windows and the tasks. O(tasks x kLongestWindow + absences).
double LeastSecondsOfTasks(const std::vector<TaskInOrder>& tasks,
                           const std::vector<Absence>& absences, std::int64_t memory_bytes,
                           const MachineLink& link);

// Longer windows end at the end of the iteration or begin at its start. The others would cost a
// minute in a graph of a million tasks.
inline constexpr std::size_t kLongestWindow = 4096;

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_CHECK_LINK_WINDOWS_H_
