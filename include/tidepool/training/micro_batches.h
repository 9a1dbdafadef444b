// SPDX-License-Identifier: Apache-2.0
// Micro-batches in task graphs: the configurations of a task become its algorithms (Oyama et al.,
// micro-cuDNN, CLUSTER 2018). Policies that choose algorithms, the planner of addresses and the
// simulator then use micro-batches without knowing them. So the workspaces of tasks that do not run
// together share memory, and the limit holds for the planned height of all data.
//
// Pure functions, thread-safe as far as the cost model of the family is.
#ifndef TIDEPOOL_TRAINING_MICRO_BATCHES_H_
#define TIDEPOOL_TRAINING_MICRO_BATCHES_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool {

// Returns whether a task treats the samples of its batch apart, and may need a workspace:
// convolutions, linear layers, products, pooling, attention, and every normalization but that over
// the batch. Tasks without a batch, such as updates, do not.
TIDEPOOL_EXPORT bool TreatsSamplesApart(const GraphTask& task);

// Returns the graph of a valid family at `batch`, in which each task that treats samples apart has
// its desirable configurations as algorithms: each is faster than all with a smaller workspace
// (ConfigurationFront). A micro-batch takes the time and the workspace of the family at its
// samples. Micro-batches are those that `policy` allows (MicroBatchSizes). InvalidArgument for
// another policy, a batch above kMostKernelBatch, and micro-batches that the family lacks. Time is
// that of GraphAt at each size, and of ConfigurationFront for each task.
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> GraphInMicroBatches(const GraphFamily& family,
                                                              std::int64_t batch,
                                                              std::string_view policy);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_MICRO_BATCHES_H_
