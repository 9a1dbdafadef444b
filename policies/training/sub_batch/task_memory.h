// SPDX-License-Identifier: Apache-2.0
// The memory that tasks need, in aligned bytes.
#ifndef TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_TASK_MEMORY_H_
#define TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_TASK_MEMORY_H_

#include <cstdint>
#include <vector>

#include "lib/base/arithmetic.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool::sub_batch {

// Whether a datum has memory during the whole iteration.
bool Stays(const GraphData& data, StayingData staying);

// Returns the algorithm of the least seconds, of equals the one with the least workspace.
const TaskAlgorithm& FastestOf(const GraphTask& task);

// The sizes of a graph's data at one batch.
class DataSizes {
 public:
  // `bytes` has the size of each datum, which this rounds up.
  DataSizes(const TaskGraph& graph, std::vector<std::int64_t> bytes, std::int64_t alignment,
            StayingData staying);

  std::int64_t Rounded(std::int64_t bytes) const { return AlignUp(bytes, alignment_); }
  // Returns the bytes of a datum that does not stay; 0 for one that does.
  std::int64_t Moving(std::size_t data) const { return moving_[data]; }
  // Returns the bytes of all data of a task that does not stay.
  std::int64_t OfTask(const GraphTask& task) const;
  std::int64_t staying() const { return staying_; }

 private:
  std::int64_t alignment_;
  std::vector<std::int64_t> moving_;
  std::int64_t staying_ = 0;
};

// Returns the sizes at the batch of the graph.
DataSizes SizesOf(const TaskGraph& graph, std::int64_t alignment, StayingData staying);

// Returns the workspace of the fastest algorithm of each task.
std::vector<std::int64_t> FastestWorkspaces(const TaskGraph& graph);

// Equation (8): returns the most memory of consecutive tasks that are no updates, and of the data
// that stays. `graph` needs no algorithms. O(uses log tasks).
std::int64_t WindowBytes(const TaskGraph& graph, const DataSizes& sizes,
                         const std::vector<std::int64_t>& workspaces, double share);

}  // namespace tidepool::sub_batch

#endif  // TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_TASK_MEMORY_H_
