// SPDX-License-Identifier: Apache-2.0
// The simplest schedule that moves data. Data leaves after a task unless the next task uses it, and
// comes back one task before its next use.
#ifndef TIDEPOOL_TESTS_TRAINING_EXECUTE_OFFLOAD_EVERYTHING_H_
#define TIDEPOOL_TESTS_TRAINING_EXECUTE_OFFLOAD_EVERYTHING_H_

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "lib/training/schedule/steps/begin_on_host.h"
#include "tidepool/training/schedule.h"

namespace tidepool::testing {

struct OffloadEverythingOptions {
  bool drops_early = false;  // before the next task, as vDNN does; otherwise before data comes back
  double density = -1;
  // Moves weights too.
  bool moves_weights = false;
  bool moves_nothing = false;
};

class OffloadEverything {
 public:
  OffloadEverything(const TaskGraph& graph, const OffloadEverythingOptions& options)
      : graph_(graph), options_(options), uses_(graph.data.size()), places_(graph.data.size()) {
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      ForEachUse(i, [&](std::size_t data) { uses_[data].push_back(i); });
    }
    for (std::size_t i = 0; i < graph.data.size(); ++i) {
      if (graph.data[i].before == DataHome::kHost) places_[i] = Place::kOut;
    }
  }

  Schedule Make() {
    for (std::size_t i = 0; i < graph_.data.size(); ++i) {
      if (ExistsBefore(graph_.data[i]) && ExistsAfter(graph_.data[i])) Bring(i);
    }
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      ForEachUse(i, [&](std::size_t data) { Bring(data); });
      schedule_.steps.push_back({.kind = StepKind::kRun, .index = i});
      if (i + 1 < graph_.tasks.size()) {
        ForEachUse(i + 1, [&](std::size_t data) {
          if (IsAway(data)) Bring(data);
        });
      }
      ForEachUse(i, [&](std::size_t data) { SendAfter(i, data); });
    }
    for (std::size_t i = 0; i < graph_.data.size(); ++i) {
      const bool ends_on_host = graph_.data[i].after == DataHome::kHost;
      if (ends_on_host && places_[i] == Place::kThere) {
        Add(StepKind::kOffload, i);
        places_[i] = Place::kSent;
      }
      if (ends_on_host && places_[i] == Place::kSent) Drop(i);
      if (IsAway(i) && !ends_on_host) Bring(i);
      if (!ExistsAfter(graph_.data[i]) && places_[i] == Place::kThere) Free(i);
    }
    schedule_.policy = "offload everything";
    schedule_.fingerprint = GraphFingerprint(graph_);
    return schedule_;
  }

 private:
  enum class Place { kNowhere, kThere, kSent, kOut };  // kSent: and not dropped yet

  template <typename Function>
  void ForEachUse(std::size_t task, Function function) {
    for (const auto* uses :
         {&graph_.tasks[task].reads, &graph_.tasks[task].writes, &graph_.tasks[task].updates}) {
      for (const std::size_t data : *uses) function(data);
    }
  }
  void Add(StepKind kind, std::size_t data) {
    schedule_.steps.push_back({.kind = kind, .index = data});
  }
  bool IsAway(std::size_t data) const {
    return places_[data] == Place::kSent || places_[data] == Place::kOut;
  }
  void Drop(std::size_t data) {
    Add(StepKind::kDrop, data);
    places_[data] = Place::kOut;
  }
  void Bring(std::size_t data) {
    if (places_[data] == Place::kThere) return;
    if (places_[data] == Place::kSent) Drop(data);
    Add(places_[data] == Place::kNowhere ? StepKind::kAllocate : StepKind::kPrefetch, data);
    places_[data] = Place::kThere;
  }
  void Free(std::size_t data) {
    Add(StepKind::kFree, data);
    places_[data] = Place::kNowhere;
  }
  void SendAfter(std::size_t task, std::size_t data) {
    const bool is_weight = ExistsBefore(graph_.data[data]) && ExistsAfter(graph_.data[data]);
    if (places_[data] != Place::kThere || (is_weight && !options_.moves_weights)) return;
    std::size_t next = std::numeric_limits<std::size_t>::max();
    for (const std::size_t use : uses_[data]) {
      if (use > task) next = std::min(next, use);
    }
    if (next == task + 1) return;
    if (next > graph_.tasks.size() && !is_weight) return Free(data);
    if (options_.moves_nothing) return;
    Add(StepKind::kOffload, data);
    if (!schedule::HostMayRead(graph_.data[data]))
      schedule_.steps.back().density = options_.density;
    places_[data] = Place::kSent;
    if (options_.drops_early) Drop(data);
  }

  const TaskGraph& graph_;
  const OffloadEverythingOptions options_;
  std::vector<std::vector<std::size_t>> uses_;
  std::vector<Place> places_;
  Schedule schedule_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_EXECUTE_OFFLOAD_EVERYTHING_H_
