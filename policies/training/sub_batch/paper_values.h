// SPDX-License-Identifier: Apache-2.0
// Values of moDNN that no policy needs: tests and the paper's figures compare with them.
#ifndef TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_PAPER_VALUES_H_
#define TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_PAPER_VALUES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::sub_batch {

// The memory of an iteration by each technique of the paper alone (figure 13), and by all of them.
struct TechniqueMemory {
  std::int64_t ideal = 0;        // all data at once, and the largest workspace
  std::int64_t algorithms = 0;   // all data at once, and the least workspaces
  std::int64_t sub_batches = 0;  // all data of one sample, and its largest workspace
  std::int64_t transfers = 0;    // the largest task of the whole batch, with its fastest algorithm
  std::int64_t all = 0;          // equation (7): the largest task of one sample
  std::int64_t all_without_weights = 0;  // the same where weights leave too
};
// Returns the memories of a valid family at a batch. `alignment` is a power of two. Errors are
// those of GraphAt at 1 sample and at the batch. O(graph).
absl::StatusOr<TechniqueMemory> MemoryOfTechniques(const GraphFamily& family, std::int64_t batch,
                                                   std::int64_t alignment);

// Returns the most memory that consecutive tasks of a valid graph need: equation (8). For each
// window of max(1, ceil(share x tasks)) tasks that is the data of the tasks, each datum once, and
// the largest workspace of their fastest algorithms; and besides the data that stays. (The paper
// subtracts reused data, and names the workspace in its text alone.) O(uses log tasks).
std::int64_t ConsecutiveTaskBytes(const TaskGraph& graph, double share, std::int64_t alignment);

}  // namespace tidepool::sub_batch

#endif  // TIDEPOOL_POLICIES_TRAINING_SUB_BATCH_PAPER_VALUES_H_
