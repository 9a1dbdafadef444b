// SPDX-License-Identifier: Apache-2.0
// Sub-batches: the least memory of an iteration, and the samples of a round for a memory. Chen et
// al., "moDNN: Memory Optimal Deep Neural Network Training on Graphics Processing Units", IEEE TPDS
// 30(3), 2019, section 5.1; and the shorter paper of DATE 2018.
//
// Pure functions, thread-safe: they touch no memory, no device and no clock. Sizes of data are
// rounded up to the alignment, as a pool or fixed addresses round them.
#ifndef TIDEPOOL_TRAINING_SUB_BATCH_H_
#define TIDEPOOL_TRAINING_SUB_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool {

// The data that has memory during the whole iteration.
enum class StayingData : std::uint8_t {
  // Weights, their gradients and optimizer state: they live from round to round.
  kWeights,
  kAtHome,  // data at home on the device after the iteration
  kNone,
};

struct MemoryBound {
  std::int64_t bytes = 0;
  std::int64_t staying_bytes = 0;  // S_W in the paper
  std::size_t task = 0;            // the first task that needs `bytes`
};

// Returns the memory of the data that stays and of the largest task: equations (6) and (7) at the
// batch of a valid graph, with the least workspace of each task. Updates count too. O(data + uses).
TIDEPOOL_EXPORT MemoryBound LeastMemory(const TaskGraph& graph, std::int64_t alignment,
                                        StayingData staying = StayingData::kWeights);

enum class SubBatchRule : std::uint8_t {
  // TPDS 2019, equation (8): the data and the largest workspace of consecutive tasks fit.
  kConsecutiveTasks,
  // DATE 2018, equation (3): as many samples as the largest task leaves room for.
  kLargestTask,
};
// Returns the value with the name "consecutive-tasks" or "largest-task". InvalidArgument, with the
// known names, for another name.
TIDEPOOL_EXPORT absl::StatusOr<SubBatchRule> SubBatchRuleFromName(std::string_view name);

struct SubBatchOptions {
  SubBatchRule rule = SubBatchRule::kConsecutiveTasks;
  // The consecutive tasks as a share of all but updates: alpha, more than 0 and up to 1.
  double consecutive_share = 0.15;

  friend bool operator==(const SubBatchOptions&, const SubBatchOptions&) = default;
};

// Returns the largest sub-batch up to `sub_batch` that is a multiple of 64, or a power of two below
// 64: 200 -> 192, 100 -> 64, 33 -> 32, 12 -> 8.
TIDEPOOL_EXPORT std::int64_t RegularSubBatch(std::int64_t sub_batch);

struct SubBatchChoice {
  std::int64_t sub_batch = 0;
  int profiles = 0;         // batches at which workspaces were looked up
  bool keeps_rule = false;  // false: no sub-batch keeps the rule, and this is the largest that runs
};

// Chooses the sub-batch of a valid family for `memory_bytes` of one device with `batch` samples.
//
// The rule needs the workspaces at the sub-batch that it chooses. So it is applied again with the
// workspaces at its last answer, until the answer repeats itself; of answers that alternate, the
// least is taken. That one is made smaller until it keeps the rule with its own workspaces, because
// a larger sub-batch may need less memory. If none does, the answer is the largest sub-batch up to
// the first one at which all tasks fit with their least workspaces.
//
// ResourceExhausted when not even the least sub-batch has tasks that fit, with the task, its bytes
// and the sub-batch. InvalidArgument for options out of range; errors of GraphAt.
// O(graph x SubBatchChoice::profiles).
TIDEPOOL_EXPORT absl::StatusOr<SubBatchChoice> ChooseSubBatch(const GraphFamily& family,
                                                              std::int64_t batch,
                                                              std::int64_t memory_bytes,
                                                              std::int64_t alignment,
                                                              const SubBatchOptions& options = {});

// Whether the graph normalises over its batch. In rounds the statistics are those of each
// sub-batch (ghost batch normalisation), so gradients differ from those of the whole batch.
TIDEPOOL_EXPORT bool NormalizesOverBatch(const TaskGraph& graph);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_SUB_BATCH_H_
