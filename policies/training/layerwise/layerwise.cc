// SPDX-License-Identifier: Apache-2.0
// Builds a schedule layer by layer: after a layer of the forward pass its input leaves, and during
// a layer of the backward pass the input of an earlier layer comes back.
//
// vDNN (Rhu et al., MICRO 2016, section III) and vDNN++ (Shriram et al., IPDPS 2019, sections II-B
// and IV-A) choose the same data and the same times of prefetches. During a layer they fetch the
// nearest earlier layer's input that is on the host, but look no further back than the next
// convolution.
#include "policies/training/layerwise/layerwise.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "lib/training/graph/task_uses.h"
#include "lib/training/schedule/steps/begin_on_host.h"

namespace tidepool::layerwise {
namespace {

class LayerwiseBuilder {
 public:
  LayerwiseBuilder(const TaskGraph& graph, const Layers& layers, const LayerwiseMode& mode)
      : graph_(graph),
        layers_(layers),
        mode_(mode),
        leaving_(LeavingAfter(graph, layers, mode)),
        leaves_(graph.data.size()),
        is_out_(schedule::BeginOnHost(graph)),
        needed_by_(layers.forward.size()),
        goes_on_below_(layers.forward.size()),
        last_used_forward_(layers.forward.size()),
        last_used_backward_(layers.backward.size()) {
    for (const std::vector<std::size_t>& data : leaving_) {
      for (const std::size_t one : data) leaves_[one] = true;
    }
    for (std::size_t data = 0; data < graph.data.size(); ++data) FileByUse(data);
    std::iota(goes_on_below_.begin(), goes_on_below_.end(), std::size_t{0});
  }

  Schedule Build() {
    for (const DataKind kind : {DataKind::kWeight, DataKind::kOptimizerState,
                                DataKind::kWeightGradient, DataKind::kInput}) {
      for (std::size_t data = 0; data < graph_.data.size(); ++data) {
        if (graph_.data[data].kind == kind && ExistsBefore(graph_.data[data])) Bring(data);
      }
    }
    for (std::size_t i = 0; i < layers_.forward.size(); ++i) AddForward(i);
    if (!mode_.synchronizes) {
      for (const std::vector<std::size_t>& data : leaving_) {
        for (const std::size_t one : data) Drop(one);
      }
    }
    for (std::size_t i = 0; i < layers_.backward.size(); ++i) AddBackward(i);
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (graph_.data[data].after != DataHome::kHost) continue;
      Send(data);
      Drop(data);
    }
    return std::move(schedule_);
  }

 private:
  // Records where data is freed, and which forward layer's counterpart needs data that left.
  void FileByUse(std::size_t data) {
    const Lifetime& lifetime = layers_.lifetimes[data];
    const bool stays = ExistsAfter(graph_.data[data]);
    if (lifetime.last_backward == kNone) {
      if (lifetime.last_forward != kNone && !stays) {
        last_used_forward_[lifetime.last_forward].push_back(data);
      }
      return;
    }
    if (!stays) last_used_backward_[lifetime.last_backward].push_back(data);
    if (!leaves_[data]) return;
    const std::size_t forward = layers_.backward[lifetime.first_backward].forward;
    if (forward != kNone) needed_by_[forward].push_back(data);
  }

  void AddForward(std::size_t index) {
    const Layer& layer = layers_.forward[index];
    AllocateOutputs(layer, {DataKind::kActivation, DataKind::kGradient, DataKind::kWeightGradient});
    Run(layer);
    for (const std::size_t data : leaving_[index]) Send(data);
    if (mode_.synchronizes && !leaving_[index].empty()) {
      Add({.kind = StepKind::kSynchronize});
      for (const std::size_t data : leaving_[index]) Drop(data);
    }
    Free(last_used_forward_[index]);
  }

  void AddBackward(std::size_t index) {
    const Layer& layer = layers_.backward[index];
    const std::size_t fetched_before = fetched_;
    for (std::size_t task = layer.begin; task < layer.end; ++task) {
      for (const std::size_t data : graph::InputsOf(graph_.tasks[task])) Fetch(data);
    }
    if (mode_.order == AllocationOrder::kPrefetchFirst) {
      FetchAhead(layer);
      AllocateOutputs(layer,
                      {DataKind::kActivation, DataKind::kWeightGradient, DataKind::kGradient});
    } else {
      AllocateOutputs(layer,
                      {DataKind::kActivation, DataKind::kGradient, DataKind::kWeightGradient});
      FetchAhead(layer);
    }
    Run(layer);
    if (mode_.synchronizes && fetched_ != fetched_before) Add({.kind = StepKind::kSynchronize});
    Free(last_used_backward_[index]);
  }

  void FetchAhead(const Layer& layer) {
    if (layer.forward == kNone) return;
    const std::size_t end = EndOfSearch(layer.forward);
    if (end == 0) return;
    for (const std::size_t data : needed_by_[end - 1]) Fetch(data);
  }

  // Returns one past the nearest layer below `begin` that ends the search; 0 without one. A layer
  // that does not end it never will, so later searches skip it. This keeps searches at nearly
  // constant time, even where no layer is a convolution.
  std::size_t EndOfSearch(std::size_t begin) {
    std::size_t end = begin;
    while (end > 0 && !EndsSearch(end - 1)) end = goes_on_below_[end - 1];
    while (begin > end) begin = std::exchange(goes_on_below_[begin - 1], end);
    return end;
  }

  bool EndsSearch(std::size_t forward) {
    std::vector<std::size_t>& needed = needed_by_[forward];
    while (!needed.empty() && !is_out_[needed.back()]) needed.pop_back();
    return !needed.empty() || graph_.tasks[layers_.forward[forward].head].operation == "conv";
  }

  void Fetch(std::size_t data) {
    if (!is_out_[data]) return;
    is_out_[data] = false;
    ++fetched_;
    Add({.kind = StepKind::kPrefetch, .index = data});
  }

  // Brings data that exists before the iteration to the device.
  void Bring(std::size_t data) {
    if (is_out_[data]) {
      Fetch(data);
      schedule_.steps.back().hint = HintOf(data);
    } else {
      Allocate(data);
    }
  }

  void Send(std::size_t data) {
    is_out_[data] = true;
    Add({.kind = StepKind::kOffload, .index = data});
  }

  void Drop(std::size_t data) { Add({.kind = StepKind::kDrop, .index = data}); }

  void Allocate(std::size_t data) {
    Add({.kind = StepKind::kAllocate, .index = data, .hint = HintOf(data)});
  }

  Hint HintOf(std::size_t data) const {
    return leaves_[data] ? Hint::kOffloadable : Hint::kResident;
  }

  void AllocateOutputs(const Layer& layer, const std::array<DataKind, 3>& kinds) {
    for (const DataKind kind : kinds) {
      for (std::size_t task = layer.begin; task < layer.end; ++task) {
        for (const std::size_t data : graph_.tasks[task].writes) {
          if (graph_.data[data].kind == kind && !ExistsBefore(graph_.data[data])) Allocate(data);
        }
      }
    }
  }

  void Run(const Layer& layer) {
    for (std::size_t task = layer.begin; task < layer.end; ++task) {
      Add({.kind = StepKind::kRun,
           .index = task,
           .algorithm = FastestAlgorithm(graph_.tasks[task], mode_.most_workspace)});
    }
  }

  void Free(const std::vector<std::size_t>& all) {
    for (const DataKind kind : {DataKind::kActivation, DataKind::kGradient,
                                DataKind::kWeightGradient, DataKind::kInput}) {
      for (const std::size_t data : all) {
        if (graph_.data[data].kind == kind) Add({.kind = StepKind::kFree, .index = data});
      }
    }
  }

  void Add(const ScheduleStep& step) { schedule_.steps.push_back(step); }

  const TaskGraph& graph_;
  const Layers& layers_;
  const LayerwiseMode& mode_;
  const std::vector<std::vector<std::size_t>> leaving_;  // by forward layer
  std::vector<bool> leaves_;                             // by data, as the next
  std::vector<bool> is_out_;
  std::vector<std::vector<std::size_t>> needed_by_;  // by forward layer, as the next three
  std::vector<std::size_t> goes_on_below_;           // where the search for data to fetch continues
  std::vector<std::vector<std::size_t>> last_used_forward_;
  std::vector<std::vector<std::size_t>> last_used_backward_;
  std::size_t fetched_ = 0;
  Schedule schedule_;
};

}  // namespace

std::string TextOfWorkspaces(std::int64_t most_workspace) {
  if (most_workspace == kLeastWorkspace) return "(m)";
  if (most_workspace == kAnyWorkspace) return "(p)";
  return absl::StrCat("(workspaces up to ", most_workspace, " bytes)");
}

std::size_t FastestAlgorithm(const GraphTask& task, std::int64_t most_workspace) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < task.algorithms.size(); ++i) {
    if (task.algorithms[i].workspace_bytes > most_workspace) break;
    if (task.algorithms[i].seconds < task.algorithms[best].seconds) best = i;
  }
  return best;
}

Schedule MakeLayerwise(const TaskGraph& graph, const Layers& layers, const LayerwiseMode& mode) {
  Schedule schedule = LayerwiseBuilder(graph, layers, mode).Build();
  schedule.fingerprint = GraphFingerprint(graph);
  return schedule;
}

}  // namespace tidepool::layerwise
