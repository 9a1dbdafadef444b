// SPDX-License-Identifier: Apache-2.0
// Finds faults of a task by itself: its texts, algorithms and layer, without its uses of data.
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_TASK_FAULT_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_TASK_FAULT_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "tidepool/training/graph.h"

namespace tidepool::graph {

using NameSet = absl::flat_hash_set<absl::string_view>;

// Each returns the first fault and the expectation; "" for a valid part.
// Adds `name` to `others`, which it must differ from.
std::string NameFault(const std::string& name, NameSet& others);
std::string LayerFault(const LayerParameters& parameters);
// `batch` is that of the graph.
std::string TaskFault(const GraphTask& task, std::int64_t batch);

// Returns the fault of `bytes` outside of `least` to 2^50.
std::string BytesFault(std::string_view subject, std::int64_t bytes, int least);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_TASK_FAULT_H_
