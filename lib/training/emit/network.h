// SPDX-License-Identifier: Apache-2.0
// The parts of a graph that a program with kernels must know: its input, labels, loss and weights.
#ifndef TIDEPOOL_LIB_TRAINING_EMIT_NETWORK_H_
#define TIDEPOOL_LIB_TRAINING_EMIT_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"

namespace tidepool::emit {

inline constexpr std::int64_t kWordBytes = 4;  // of float32

// The first contents of a weight: noise of this deviation, or values.
struct WeightFill {
  double deviation = 0;
  float value = 0;
  float second_half = 0;  // running statistics: means, and then variances
};

struct Network {
  std::size_t input = 0;                // datum
  std::optional<std::size_t> labels{};  // datum
  std::size_t log_probabilities = 0;    // datum: the softmax before the loss
  std::int64_t classes = 0;
  std::int64_t positions = 0;           // of one sample, with a label each
  std::vector<WeightFill> fills = {};   // by datum
  std::vector<std::string> dropouts{};  // layers
  bool has_adam = false;                // an update has two states for each weight
};

// Returns the error about a task.
absl::Status AboutTask(const GraphTask& task, const std::string& fault);

// Finds the parts. InvalidArgument with the task or the datum where the graph has others.
absl::StatusOr<Network> FindNetwork(const TaskGraph& graph);

}  // namespace tidepool::emit

#endif  // TIDEPOOL_LIB_TRAINING_EMIT_NETWORK_H_
