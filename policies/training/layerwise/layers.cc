// SPDX-License-Identifier: Apache-2.0
// Groups tasks into layers, and finds the lifetime of data by layers.
#include "policies/training/layerwise/layers.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "lib/training/graph/task_uses.h"

namespace tidepool::layerwise {
namespace {

std::vector<Layer> ForwardLayers(const TaskGraph& graph, std::size_t end) {
  std::vector<Layer> layers;
  for (std::size_t task = 0; task < end; ++task) {
    if (layers.empty() || !graph.tasks[task].writes.empty()) {
      layers.push_back({.begin = task, .end = task, .head = task});
    }
    layers.back().end = task + 1;
  }
  return layers;
}

// Two tasks for the gradients of a layer are next to each other.
bool AreOfOneLayer(const GraphTask& task, const GraphTask& next) {
  return task.gradients != TaskGradients::kAll && next.gradients != TaskGradients::kAll &&
         !task.layer.empty() && task.layer == next.layer;
}

// An update that writes data of its own needs memory for it.
bool BelongsToUpdate(const GraphTask& task) {
  return task.phase == TaskPhase::kUpdate && task.writes.empty();
}

bool EndsBackwardLayer(const TaskGraph& graph, std::size_t next) {
  if (next == graph.tasks.size()) return true;
  const GraphTask& task = graph.tasks[next];
  return !BelongsToUpdate(task) && !AreOfOneLayer(graph.tasks[next - 1], task);
}

// A task in place changes the gradient that the next task reads.
std::vector<Layer> BackwardLayers(const TaskGraph& graph, std::size_t begin) {
  std::vector<Layer> layers;
  Layer layer = {.begin = begin, .end = begin, .head = begin};
  bool has_head = false;
  for (std::size_t task = begin; task < graph.tasks.size(); ++task) {
    if (!has_head && !graph.tasks[task].writes.empty()) {
      layer.head = task;
      has_head = true;
    }
    if (!has_head || !EndsBackwardLayer(graph, task + 1)) continue;
    layer.end = task + 1;
    layers.push_back(layer);
    layer = {.begin = task + 1, .end = task + 1, .head = task + 1};
    has_head = false;
  }
  if (layer.begin == graph.tasks.size()) return layers;
  if (layers.empty()) layers.push_back(layer);
  layers.back().end = graph.tasks.size();
  return layers;
}

// Returns the first forward layer that uses data that the task reads, where layers have no names.
// The data is that layer's input, and the next layer's output.
std::size_t FirstReader(const TaskGraph& graph, const Layers& layers, std::size_t task) {
  std::size_t first = kNone;
  for (const std::size_t data : graph.tasks[task].reads) {
    if (graph.data[data].kind == DataKind::kWeight) continue;
    first = std::min(first, layers.lifetimes[data].last_forward);
  }
  return first;
}

void FindForwardLayers(const TaskGraph& graph, Layers& layers) {
  absl::flat_hash_map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < layers.forward.size(); ++i) {
    by_name.emplace(graph.tasks[layers.forward[i].head].layer, i);
  }
  for (Layer& layer : layers.backward) {
    if (graph.tasks[layer.head].layer.empty()) {
      layer.forward = FirstReader(graph, layers, layer.head);
      continue;
    }
    const auto found = by_name.find(graph.tasks[layer.head].layer);
    if (found != by_name.end()) layer.forward = found->second;
  }
}

template <typename Use>
void ForEachUse(const TaskGraph& graph, const Layer& layer, Use use) {
  for (std::size_t task = layer.begin; task < layer.end; ++task) {
    for (const std::size_t data : graph::InputsOf(graph.tasks[task])) use(data, false);
    for (const std::size_t data : graph.tasks[task].writes) use(data, true);
  }
}

void FindLifetimes(const TaskGraph& graph, Layers& layers) {
  layers.lifetimes.resize(graph.data.size());
  for (std::size_t i = 0; i < layers.forward.size(); ++i) {
    ForEachUse(graph, layers.forward[i], [&](std::size_t data, bool writes) {
      if (writes) layers.lifetimes[data].written = i;
      layers.lifetimes[data].last_forward = i;
    });
  }
  for (std::size_t i = 0; i < layers.backward.size(); ++i) {
    ForEachUse(graph, layers.backward[i], [&](std::size_t data, bool writes) {
      Lifetime& lifetime = layers.lifetimes[data];
      if (!writes && lifetime.first_backward == kNone) lifetime.first_backward = i;
      lifetime.last_backward = i;
    });
  }
}

}  // namespace

Layers LayersOf(const TaskGraph& graph) {
  std::size_t backward = 0;
  while (backward < graph.tasks.size() && graph.tasks[backward].phase == TaskPhase::kForward) {
    ++backward;
  }
  Layers layers = {ForwardLayers(graph, backward), BackwardLayers(graph, backward), {}};
  FindLifetimes(graph, layers);
  FindForwardLayers(graph, layers);
  return layers;
}

}  // namespace tidepool::layerwise
