// SPDX-License-Identifier: Apache-2.0
// Decides which data leaves the device after which layer.
#include <string_view>

#include "policies/offload/layerwise.h"

namespace tidepool::offload_policies {
namespace {

bool HasOperation(const TaskGraph& graph, const Layer& layer, std::string_view operation) {
  return graph.tasks[layer.head].operation == operation;
}

std::vector<bool> AreOfSet(const TaskGraph& graph, const Layers& layers, OffloadSet set) {
  std::vector<bool> are(layers.forward.size());
  std::size_t convolutions = 0;
  for (std::size_t i = 0; i < layers.forward.size(); ++i) {
    const bool is_convolution = HasOperation(graph, layers.forward[i], "conv");
    const bool is_odd = is_convolution && convolutions++ % 2 == 0;
    are[i] = set == OffloadSet::kAll || (set == OffloadSet::kConvolutions && is_convolution) ||
             (set == OffloadSet::kAlternateConvolutions && is_odd);
  }
  return are;
}

// The papers keep the data between and after the linear layers at the end of a network: it is
// small.
bool IsOfClassifier(const TaskGraph& graph, const Layers& layers, std::size_t data,
                    std::size_t reader) {
  const std::size_t writer = layers.lifetimes[data].written;
  return writer != kNone && HasOperation(graph, layers.forward[writer], "linear") &&
         (HasOperation(graph, layers.forward[reader], "linear") ||
          HasOperation(graph, layers.forward[reader], "softmax"));
}

bool MayLeave(const TaskGraph& graph, const Layers& layers, std::size_t data) {
  const DataKind kind = graph.data[data].kind;
  return (kind == DataKind::kInput || kind == DataKind::kActivation) &&
         layers.lifetimes[data].first_backward != kNone;
}

}  // namespace

std::vector<std::vector<std::size_t>> LeavingAfter(const TaskGraph& graph, const Layers& layers,
                                                   const LayerwiseMode& mode) {
  std::vector<std::vector<std::size_t>> leaving(layers.forward.size());
  if (!mode.offloads) return leaving;
  const std::vector<bool> are_of_set = AreOfSet(graph, layers, mode.set);
  std::vector<bool> leaves(graph.data.size());
  for (std::size_t i = 0; i < layers.forward.size(); ++i) {
    if (!are_of_set[i]) continue;
    for (const std::size_t data : graph.tasks[layers.forward[i].head].reads) {
      if (!MayLeave(graph, layers, data) || leaves[data]) continue;
      if (IsOfClassifier(graph, layers, data, i)) continue;
      leaves[data] = true;
      leaving[layers.lifetimes[data].last_forward].push_back(data);
    }
  }
  return leaving;
}

}  // namespace tidepool::offload_policies
