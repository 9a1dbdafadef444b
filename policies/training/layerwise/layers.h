// SPDX-License-Identifier: Apache-2.0
// The layers of a task graph, as the papers on offloading count them: a task in place belongs to
// the layer that wrote its data. A backward layer has the tasks of the gradients of weights and of
// data, and ends with the update of its weights. Updates at the end of an iteration belong to the
// last layer, but those that write data of their own begin another one.
#ifndef TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERS_H_
#define TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERS_H_

#include <cstddef>
#include <vector>

#include "tidepool/training/graph.h"

namespace tidepool::layerwise {

inline constexpr std::size_t kNone = static_cast<std::size_t>(-1);

struct Layer {
  // Tasks of the graph, consecutive.
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t head = 0;  // the task that writes; the first if none does
  // The forward layer of a backward layer: the layer of the same name or, without one, the layer
  // that has the same input; or kNone.
  std::size_t forward = kNone;
};

// The uses of a datum by layers: indices into one of the two lists, or kNone.
struct Lifetime {
  std::size_t written = kNone;         // the forward layer that writes it
  std::size_t last_forward = kNone;    // the last one that uses it
  std::size_t first_backward = kNone;  // the first one that uses it
  std::size_t last_backward = kNone;   // the last one that uses or writes it
};

struct Layers {
  // Tasks of the forward pass, and all tasks from the first other one on.
  std::vector<Layer> forward;
  std::vector<Layer> backward;
  std::vector<Lifetime> lifetimes;  // of the graph's data
};

// Returns the layers of a valid graph. O(tasks + uses).
Layers LayersOf(const TaskGraph& graph);

}  // namespace tidepool::layerwise

#endif  // TIDEPOOL_POLICIES_TRAINING_LAYERWISE_LAYERS_H_
