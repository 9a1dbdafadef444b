// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/training/graph/data_users.h"
#include "lib/training/graph/task_uses.h"
#include "policies/training/layerwise/layerwise.h"
#include "policies/training/layerwise/layerwise_policies.h"
#include "policies/training/requests/policy_options.h"

namespace tidepool::layerwise {
namespace {

class StayingBuilder {
 public:
  StayingBuilder(const TaskGraph& graph, const ScheduleRequest& request,
                 const LayerwiseOptions& options)
      : graph_(graph),
        options_(options),
        granule_(request.placing.alignment),
        room_(request.machine.devices.front().memory_bytes),
        users_(graph),
        is_there_(graph.data.size()),
        changed_(graph.data.size()) {
    for (const GraphTask& task : graph.tasks) {
      for (const std::size_t data : graph::ChangesOf(task)) changed_[data] = true;
    }
  }

  Schedule Build() {
    for (const DataKind kind : {DataKind::kWeight, DataKind::kOptimizerState,
                                DataKind::kWeightGradient, DataKind::kInput}) {
      for (std::size_t data = 0; data < graph_.data.size(); ++data) {
        if (graph_.data[data].kind == kind) Begin(data);
      }
    }
    for (std::size_t task = 0; task < graph_.tasks.size(); ++task) AddTask(task);
    return std::move(schedule_);
  }

 private:
  bool IsWritten(std::size_t data) const {
    const DataKind kind = graph_.data[data].kind;
    return kind == DataKind::kWeightGradient && changed_[data];
  }

  // Brings data that exists before the iteration. Gradients are written over, so those at home on
  // the host get their memory with their task.
  void Begin(std::size_t data) {
    const DataHome home = graph_.data[data].before;
    if (home == DataHome::kDevice) Take(StepKind::kAllocate, data);
    const bool is_used = users_.Last(data) != graph::kNoTask && !IsWritten(data);
    if (home == DataHome::kHost && is_used) Take(StepKind::kPrefetch, data);
  }

  void Take(StepKind kind, std::size_t data) {
    schedule_.steps.push_back({.kind = kind, .index = data});
    is_there_[data] = true;
    room_ -= Rounded(graph_.data[data].bytes);
  }

  void AddTask(std::size_t task) {
    const GraphTask& one = graph_.tasks[task];
    for (const std::size_t data : one.writes) {
      if (!is_there_[data]) Take(StepKind::kAllocate, data);
    }
    schedule_.steps.push_back(
        {.kind = StepKind::kRun, .index = task, .algorithm = FastestAlgorithm(one, Room())});
    for (const std::size_t data : graph::UsesOf(one)) {
      if (users_.Last(data) == task) End(data);
    }
  }

  // Returns the most bytes of a workspace that the next task may have.
  std::int64_t Room() const {
    if (options_.set == OffloadSet::kDynamic) {
      return std::max<std::int64_t>(room_ / granule_ * granule_, 0);
    }
    return options_.algorithms == AlgorithmChoice::kLeastMemory ? kLeastWorkspace : kAnyWorkspace;
  }

  void End(std::size_t data) {
    const DataHome home = graph_.data[data].after;
    if (home == DataHome::kDevice) return;
    room_ += Rounded(graph_.data[data].bytes);
    if (home == DataHome::kNowhere) return Add(StepKind::kFree, data);
    if (changed_[data]) Add(StepKind::kOffload, data);
    Add(StepKind::kDrop, data);
  }

  void Add(StepKind kind, std::size_t data) {
    schedule_.steps.push_back({.kind = kind, .index = data});
  }

  std::int64_t Rounded(std::int64_t bytes) const { return RoundUp(bytes, granule_); }

  const TaskGraph& graph_;
  const LayerwiseOptions options_;
  const std::int64_t granule_;
  std::int64_t room_;  // bytes of the device without data
  const graph::DataUsers users_;
  std::vector<bool> is_there_;
  std::vector<bool> changed_;  // by any task
  Schedule schedule_;
};

}  // namespace

absl::StatusOr<Schedule> MakeStaying(std::string_view /*policy*/, const TaskGraph& graph,
                                     const ScheduleRequest& request) {
  const absl::StatusOr<LayerwiseOptions> options = requests::OptionsOf<LayerwiseOptions>(request);
  if (!options.ok()) return options.status();
  Schedule schedule = StayingBuilder(graph, request, *options).Build();
  schedule.policy = "none";
  schedule.fingerprint = GraphFingerprint(graph);
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = request.placing.alignment;
  return schedule;
}

}  // namespace tidepool::layerwise
