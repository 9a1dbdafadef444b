// SPDX-License-Identifier: Apache-2.0
// The tasks that use each datum: the first and the last of all, or of those on one side of a task.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_DATA_USERS_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_DATA_USERS_H_

#include <cstddef>
#include <limits>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::graph {

inline constexpr std::size_t kNoTask = std::numeric_limits<std::size_t>::max();

// Returns the task that writes each datum; kNoTask for data that no task writes.
std::vector<std::size_t> WritersOf(const TaskGraph& graph);

class DataUsers {
 public:
  // O(data + uses). The graph may end before it.
  explicit DataUsers(const TaskGraph& graph);

  // Return kNoTask where no task reads, updates or writes the datum.
  std::size_t First(std::size_t data) const { return FirstFrom(data, 0); }
  std::size_t Last(std::size_t data) const { return LastBefore(data, kNoTask); }
  // Return the first user from `task` on, and the last one before it, or kNoTask. O(log users).
  std::size_t FirstFrom(std::size_t data, std::size_t task) const;
  std::size_t LastBefore(std::size_t data, std::size_t task) const;

 private:
  std::vector<std::size_t> begins_;  // by datum: of its users; then the end
  std::vector<std::size_t> users_;   // ascending for each datum
};

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_DATA_USERS_H_
