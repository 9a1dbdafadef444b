// SPDX-License-Identifier: Apache-2.0
// Random valid schedules of random graphs, and randomly changed ones.
#ifndef TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_SCHEDULE_H_
#define TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_SCHEDULE_H_

#include <utility>
#include <vector>

#include "lib/training/schedule/steps/begin_on_host.h"
#include "tests/training/graph/random_graph.h"
#include "tests/training/graph/slow_graph.h"
#include "tidepool/training/schedule.h"

namespace tidepool::testing {

class RandomSchedules {
 public:
  RandomSchedules(const TaskGraph& graph, RandomGraphs& random)
      : graph_(graph),
        random_(random),
        places_(graph.data.size(), Place::kNowhere),
        are_written_(graph.data.size()),
        have_run_(graph.tasks.size()) {
    for (std::size_t data = 0; data < places_.size(); ++data) {
      if (graph.data[data].before == DataHome::kHost) places_[data] = Place::kOut;
    }
  }

  // Returns a valid schedule. May be called once.
  Schedule Valid() {
    const double restlessness = static_cast<double>(random_.Below(4)) * 0.3;
    for (std::size_t data = 0; data < places_.size(); ++data) {
      are_written_[data] = IsThereBefore(data);
      const bool comes =
          graph_.data[data].kind == DataKind::kWeight || (IsThereBefore(data) && Chance(0.5));
      if (!comes) continue;
      places_[data] == Place::kNowhere ? Allocate(data) : Prefetch(data);
    }
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      MoveSomething(restlessness);
      RunOne();
    }
    MoveSomething(restlessness);
    TidyUp();
    return {"random", GraphFingerprint(graph_), steps_};
  }

  // Breaks something, as a rule.
  void Change(Schedule& schedule) {
    std::vector<ScheduleStep>& steps = schedule.steps;
    const auto at = static_cast<std::ptrdiff_t>(random_.Below(steps.size()));
    ScheduleStep& step = steps[static_cast<std::size_t>(at)];
    switch (random_.Below(6)) {
      case 0:
        steps.erase(steps.begin() + at);
        return;
      case 1:
        steps.insert(steps.begin() + at, steps[random_.Below(steps.size())]);
        return;
      case 2:
        return std::swap(step, steps[random_.Below(steps.size())]);
      case 3:
        step.index = random_.Below(graph_.data.size() + 1);
        return;
      case 4:
        step.kind = static_cast<StepKind>(random_.Below(9));
        return;
      default:
        if (Chance(0.5)) step.algorithm = random_.Below(3);
        if (Chance(0.5)) step.density = random_.Below(2) == 0 ? 1.5 : -0.5;
        return;
    }
  }

 private:
  enum class Place { kNowhere, kDevice, kSent, kOut, kFreed };  // kSent: and on the device still

  bool Chance(double probability) { return random_.Chance(probability); }
  Hint AnyHint() { return Chance(0.5) ? Hint::kResident : Hint::kOffloadable; }
  bool IsThereBefore(std::size_t data) const {
    return graph_.data[data].kind == DataKind::kInput ||
           graph_.data[data].kind == DataKind::kWeight;
  }

  void Add(StepKind kind, std::size_t index) {
    steps_.push_back({.kind = kind, .index = index, .hint = AnyHint()});
  }
  void Allocate(std::size_t data) {
    Add(StepKind::kAllocate, data);
    places_[data] = Place::kDevice;
  }
  void Prefetch(std::size_t data) {
    Add(StepKind::kPrefetch, data);
    places_[data] = Place::kDevice;
  }
  void Free(std::size_t data) {
    Add(StepKind::kFree, data);
    places_[data] = Place::kFreed;
  }
  void Offload(std::size_t data) {
    Add(StepKind::kOffload, data);
    const bool may_compress = !schedule::HostMayRead(graph_.data[data]);
    if (Chance(0.3) && may_compress)
      steps_.back().density = 0.01 * static_cast<double>(random_.Below(101));
    places_[data] = Place::kSent;
  }
  void Drop(std::size_t data) {
    Add(StepKind::kDrop, data);
    places_[data] = Place::kOut;
  }

  bool IsNeeded(std::size_t data) const {
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const GraphTask& task = graph_.tasks[i];
      if (!have_run_[i] && (UsesThere(task, data) || Holds(task.writes, data))) return true;
    }
    return false;
  }
  bool IsAllocated(std::size_t data) const {
    return places_[data] == Place::kDevice || IsAway(data);
  }
  bool IsAway(std::size_t data) const {
    return places_[data] == Place::kSent || places_[data] == Place::kOut;
  }
  bool MayBeFreed(std::size_t data) const {
    return IsAllocated(data) && graph_.data[data].kind != DataKind::kWeight && !IsNeeded(data);
  }

  void MoveSomething(double restlessness) {
    for (std::size_t data = 0; data < places_.size(); ++data) {
      if (MayBeFreed(data) && Chance(0.5)) Free(data);
      if (!IsAllocated(data) || !Chance(restlessness)) continue;
      const bool is_out = places_[data] == Place::kOut;
      if (places_[data] == Place::kSent && Chance(0.5)) Drop(data);
      if (places_[data] == Place::kDevice && are_written_[data]) Offload(data);
      if (is_out) Prefetch(data);
      if (places_[data] == Place::kSent && Chance(0.3)) Drop(data);
    }
    if (Chance(restlessness * 0.3)) Add(StepKind::kSynchronize, 0);
  }

  bool CanRun(std::size_t task) const {
    if (have_run_[task]) return false;
    for (std::size_t other = 0; other < have_run_.size(); ++other) {
      if (!have_run_[other] && other != task && SlowMustWait(graph_, task, other)) return false;
    }
    return true;
  }

  void RunOne() {
    std::size_t index = 0;
    while (!CanRun(index)) ++index;
    for (std::size_t other = index + 1; other < have_run_.size(); ++other) {
      if (CanRun(other) && Chance(0.2)) index = other;
    }
    const GraphTask& task = graph_.tasks[index];
    for (const auto* uses : {&task.reads, &task.updates, &task.writes}) {
      for (const std::size_t data : *uses) {
        if (places_[data] == Place::kNowhere) Allocate(data);
        if (places_[data] == Place::kSent) Drop(data);
        if (places_[data] == Place::kOut) Prefetch(data);
      }
    }
    Add(StepKind::kRun, index);
    steps_.back().algorithm = random_.Below(task.algorithms.size());
    have_run_[index] = true;
    for (const std::size_t data : task.writes) are_written_[data] = true;
  }

  void TidyUp() {
    for (std::size_t data = 0; data < places_.size(); ++data) {
      if (graph_.data[data].kind != DataKind::kWeight) {
        if (places_[data] != Place::kFreed) Free(data);
        continue;
      }
      const bool goes_home = graph_.data[data].after == DataHome::kHost;
      if (goes_home && places_[data] == Place::kDevice) Offload(data);
      if (places_[data] == Place::kSent) Drop(data);
      if (!goes_home && places_[data] == Place::kOut) Prefetch(data);
    }
  }

  const TaskGraph& graph_;
  RandomGraphs& random_;
  std::vector<ScheduleStep> steps_;
  std::vector<Place> places_;
  std::vector<bool> are_written_;
  std::vector<bool> have_run_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_SCHEDULE_RANDOM_SCHEDULE_H_
