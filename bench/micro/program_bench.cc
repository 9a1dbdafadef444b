// SPDX-License-Identifier: Apache-2.0
// Claim: a schedule of ResNet-152 is lowered and simulated in 2 ms, and one of VGG-101 at sub-batch
// 1 with 128 rounds in 50 ms. Two devices that share a bus take at most 4 times as long as one.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/timeline.h"

namespace tidepool::bench {
namespace {

constexpr std::size_t kNone = SIZE_MAX;
constexpr std::int64_t kAlignment = 512;

// Offsets by first fit.
class FirstFit {
 public:
  std::int64_t Take(std::int64_t bytes) {
    std::int64_t offset = 0;
    for (const auto& [begin, end] : live_) {
      if (offset + bytes <= begin) break;
      offset = std::max(offset, end);
    }
    const std::int64_t end = offset + RoundUp(bytes, kAlignment);
    live_[offset] = end;
    top_ = std::max(top_, end);
    return offset;
  }
  void Give(std::int64_t offset) { live_.erase(offset); }
  std::int64_t top() const { return top_; }

 private:
  std::map<std::int64_t, std::int64_t> live_;
  std::int64_t top_ = 0;
};

// Sends each datum out after the last task before the largest gap in its uses, and fetches it a
// task before the next one. Passes are forward and backward tasks; updates run after the last pass.
class OffloadEverything {
 public:
  OffloadEverything(const TaskGraph& graph, std::size_t devices)
      : graph_(graph), devices_(devices), uses_(graph.data.size()) {
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      if (graph.tasks[i].phase == TaskPhase::kUpdate) continue;
      for (const auto* uses : UsesOf(i)) {
        for (const std::size_t data : *uses) uses_[data].push_back(i);
      }
    }
    out_after_.resize(graph.tasks.size());
    in_before_.resize(graph.tasks.size());
    for (std::size_t data = 0; data < uses_.size(); ++data) FindGap(data);
  }

  Schedule Make(ScheduleMemory memory, std::int64_t passes) {
    schedule_.memory = memory;
    schedule_.alignment = kAlignment;
    schedule_.devices = devices_;
    offsets_.assign(graph_.data.size(), -1);
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (Lives(data)) Take(StepKind::kAllocate, data);
    }
    EndRound(1);
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      if (graph_.tasks[i].phase != TaskPhase::kUpdate) AddTask(i);
    }
    EndRound(passes);
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      if (graph_.tasks[i].phase == TaskPhase::kUpdate) Run(i);
    }
    EndRound(1);
    return schedule_;
  }

  std::int64_t top() const { return fit_.top(); }

 private:
  std::vector<const std::vector<std::size_t>*> UsesOf(std::size_t task) const {
    const GraphTask& own = graph_.tasks[task];
    return {&own.reads, &own.writes, &own.updates};
  }

  // Whether data lives across passes.
  bool Lives(std::size_t data) const {
    const DataKind kind = graph_.data[data].kind;
    return kind == DataKind::kWeight || kind == DataKind::kWeightGradient ||
           kind == DataKind::kOptimizerState;
  }

  void FindGap(std::size_t data) {
    const std::vector<std::size_t>& uses = uses_[data];
    std::size_t longest = kNone;
    for (std::size_t i = 1; i < uses.size(); ++i) {
      const std::size_t gap = uses[i] - uses[i - 1];
      if (gap > 3 && (longest == kNone || gap > uses[longest] - uses[longest - 1])) longest = i;
    }
    if (longest == kNone || Lives(data)) return;
    out_after_[uses[longest - 1]].push_back(data);
    in_before_[uses[longest] - 1].push_back(data);
  }

  void AddTask(std::size_t task) {
    for (const auto* uses : UsesOf(task)) {
      for (const std::size_t data : *uses) {
        if (offsets_[data] < 0) Take(StepKind::kAllocate, data);
      }
    }
    Run(task);
    for (const std::size_t data : out_after_[task]) {
      Add(StepKind::kOffload, data);
      Add(StepKind::kDrop, data);
      Give(data);
    }
    if (task + 1 < in_before_.size()) {
      for (const std::size_t data : in_before_[task + 1]) Take(StepKind::kPrefetch, data);
    }
    for (const auto* uses : UsesOf(task)) {
      for (const std::size_t data : *uses) {
        if (uses_[data].back() != task || Lives(data)) continue;
        Add(StepKind::kFree, data);
        Give(data);
      }
    }
  }

  void Take(StepKind kind, std::size_t data) {
    offsets_[data] = fit_.Take(graph_.data[data].bytes);
    Add(kind, data, offsets_[data]);
  }
  void Give(std::size_t data) {
    fit_.Give(offsets_[data]);
    offsets_[data] = -1;
  }

  void Run(std::size_t task) {
    const std::int64_t workspace = graph_.tasks[task].algorithms.back().workspace_bytes;
    const std::int64_t offset = workspace > 0 ? fit_.Take(workspace) : -1;
    Add(StepKind::kRun, task, offset);
    if (workspace > 0) fit_.Give(offset);
  }

  // Adds a step for each device.
  void Add(StepKind kind, std::size_t index, std::int64_t offset = -1) {
    ScheduleStep step = {.kind = kind, .index = index};
    if (kind == StepKind::kRun) step.algorithm = graph_.tasks[index].algorithms.size() - 1;
    if (schedule_.memory == ScheduleMemory::kFixed) step.offset = offset;
    for (step.device = 0; step.device < devices_; ++step.device) schedule_.steps.push_back(step);
  }

  void EndRound(std::int64_t times) {
    schedule_.rounds.push_back({first_, schedule_.steps.size() - first_, times, 0});
    first_ = schedule_.steps.size();
  }

  const TaskGraph& graph_;
  std::size_t devices_;
  std::vector<std::vector<std::size_t>> uses_;  // tasks, by data
  std::vector<std::vector<std::size_t>> out_after_;
  std::vector<std::vector<std::size_t>> in_before_;
  std::vector<std::int64_t> offsets_;
  FirstFit fit_;
  Schedule schedule_;
  std::size_t first_ = 0;
};

template <typename T>
T Checked(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}

void Measure(benchmark::State& state, const TaskGraph& graph, ScheduleMemory memory,
             std::size_t devices, std::int64_t passes) {
  OffloadEverything maker(graph, devices);
  const Schedule schedule = maker.Make(memory, passes);
  Machine machine;
  machine.devices.assign(devices, {.memory_bytes = maker.top()});
  const auto run = [&] {
    const Program program =
        Checked(LowerSchedule(absl::MakeConstSpan(&graph, 1), schedule, machine));
    return std::pair(SimulateProgram(graph, program), program.waits.size());
  };
  double lowering = 0;
  for (auto _ : state) {
    const std::clock_t start = std::clock();
    const Program program =
        Checked(LowerSchedule(absl::MakeConstSpan(&graph, 1), schedule, machine));
    lowering += static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    benchmark::DoNotOptimize(SimulateProgram(graph, program));
  }
  const auto [timeline, waits] = run();
  std::size_t tasks = 0;
  for (const TimelineEvent& event : timeline.events) {
    if (event.kind == TimelineEvent::Kind::kTask) ++tasks;
  }
  state.counters["tasks"] = static_cast<double>(tasks);
  state.counters["operations"] = static_cast<double>(timeline.events.size());
  state.counters["waits"] = static_cast<double>(waits);
  state.counters["lowering_ms"] = 1e3 * lowering / static_cast<double>(state.iterations());
}

const TaskGraph& ResNet152() {
  static const TaskGraph graph = MakeModel("resnet-152", {.batch = 64}).value();
  return graph;
}

void ResNet152Fixed(benchmark::State& state) {
  Measure(state, ResNet152(), ScheduleMemory::kFixed, static_cast<std::size_t>(state.range(0)), 1);
}
void ResNet152Paged(benchmark::State& state) {
  Measure(state, ResNet152(), ScheduleMemory::kPaged, static_cast<std::size_t>(state.range(0)), 1);
}
// The argument is the number of devices. All share one link, by equal parts.
BENCHMARK(ResNet152Fixed)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);
BENCHMARK(ResNet152Paged)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

void Vgg101Rounds(benchmark::State& state) {
  const TaskGraph graph = MakeModel("vgg-101", {.batch = 1}).value();
  Measure(state, graph, static_cast<ScheduleMemory>(state.range(0)), 1, 128);
}
// The argument is the memory: 1 fixed addresses, 2 pages.
BENCHMARK(Vgg101Rounds)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tidepool::bench

BENCHMARK_MAIN();
