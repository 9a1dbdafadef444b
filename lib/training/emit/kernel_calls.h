// SPDX-License-Identifier: Apache-2.0
// The calls of the kernels of a task (kernel_text.cc), from its layer parameters.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_KERNEL_CALLS_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_KERNEL_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/training/emit/network.h"
#include "tidepool/training/graph.h"

namespace tidepool::emit {

// A task with its addresses on the device: expressions, in the order of its uses.
struct PlacedTask {
  const TaskGraph& graph;  // at the batch of the round
  const GraphTask& task;
  const TaskAlgorithm& algorithm;
  std::vector<std::string> reads = {};
  std::vector<std::string> writes = {};
  std::vector<std::string> updates = {};
  std::string workspace = "nullptr";
  std::size_t stream = 0;
};

// Returns the statements. InvalidArgument with the name of the task where no kernel computes it.
absl::StatusOr<std::string> KernelCalls(const Network& network, const PlacedTask& placed);

// Return those of operations that have a file of their own.
absl::StatusOr<std::string> ConvolutionCalls(const Network& network, const PlacedTask& placed);
absl::StatusOr<std::string> TransposedConvolutionCalls(const Network& network,
                                                       const PlacedTask& placed);
absl::StatusOr<std::string> SumCalls(const Network& network, const PlacedTask& placed);
absl::StatusOr<std::string> ConcatenationCalls(const Network& network, const PlacedTask& placed);

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_KERNEL_CALLS_H_
