// SPDX-License-Identifier: Apache-2.0
// Decides which data leaves the device after which layer.
#include <algorithm>
#include <string_view>

#include "policies/training/layerwise/layerwise.h"

namespace tidepool::layerwise {
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

bool MayBeOfClassifier(const TaskGraph& graph, const Layer& layer) {
  return HasOperation(graph, layer, "linear") || HasOperation(graph, layer, "softmax") ||
         HasOperation(graph, layer, "relu") || HasOperation(graph, layer, "dropout");
}

// Returns the first layer of the classifier that ends a convolutional network. Without convolutions
// there is no classifier, and the number of layers is returned.
std::size_t BeginOfClassifier(const TaskGraph& graph, const Layers& layers) {
  const std::vector<Layer>& forward = layers.forward;
  const bool has_convolutions =
      std::any_of(forward.begin(), forward.end(),
                  [&](const Layer& layer) { return HasOperation(graph, layer, "conv"); });
  if (!has_convolutions) return forward.size();
  std::size_t begin = forward.size();
  while (begin > 0 && MayBeOfClassifier(graph, forward[begin - 1])) --begin;
  return begin;
}

// The papers keep the data between and after the linear layers of a classifier: it is small.
bool IsOfClassifier(const TaskGraph& graph, const Layers& layers, std::size_t begin,
                    std::size_t data, std::size_t reader) {
  const std::size_t writer = layers.lifetimes[data].written;
  return writer != kNone && writer >= begin &&
         HasOperation(graph, layers.forward[writer], "linear") &&
         (HasOperation(graph, layers.forward[reader], "linear") ||
          HasOperation(graph, layers.forward[reader], "softmax"));
}

bool MayLeave(const TaskGraph& graph, const Layers& layers, std::size_t data) {
  const DataKind kind = graph.data[data].kind;
  return (kind == DataKind::kInput || kind == DataKind::kActivation) &&
         layers.lifetimes[data].first_backward != kNone;
}

// Chooses a share of a sequence of data, spread over the sequence.
class Share {
 public:
  explicit Share(int parts) : parts_(parts) {}

  bool Takes(std::int64_t bytes) {
    offered_ += static_cast<double>(bytes);
    const double taken = taken_ + static_cast<double>(bytes);
    if (taken * kAllParts > offered_ * parts_) return false;
    taken_ = taken;
    return true;
  }

 private:
  const int parts_;
  double offered_ = 0;
  double taken_ = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> LeavingAfter(const TaskGraph& graph, const Layers& layers,
                                                   const LayerwiseMode& mode) {
  std::vector<std::vector<std::size_t>> leaving(layers.forward.size());
  if (!mode.offloads) return leaving;
  Share share(mode.parts);
  const std::vector<bool> are_of_set = AreOfSet(graph, layers, mode.set);
  const std::size_t classifier = BeginOfClassifier(graph, layers);
  std::vector<bool> was_offered(graph.data.size());
  for (std::size_t i = 0; i < layers.forward.size(); ++i) {
    if (!are_of_set[i]) continue;
    for (const std::size_t data : graph.tasks[layers.forward[i].head].reads) {
      if (!MayLeave(graph, layers, data) || was_offered[data]) continue;
      if (IsOfClassifier(graph, layers, classifier, data, i)) continue;
      was_offered[data] = true;
      if (!share.Takes(graph.data[data].bytes)) continue;
      leaving[layers.lifetimes[data].last_forward].push_back(data);
    }
  }
  return leaving;
}

}  // namespace tidepool::layerwise
