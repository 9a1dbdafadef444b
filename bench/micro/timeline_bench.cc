// SPDX-License-Identifier: Apache-2.0
// Claim: the simulator takes less than 20 ms for a schedule of ResNet-152 and less than 0.5 s for
// one of 10,000 tasks, with the most offloads possible.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tidepool/training/model_zoo.h"
#include "tidepool/training/timeline.h"

namespace tidepool::bench {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

// Sends each datum out when the last task before the largest gap in its uses has begun, and fetches
// it a task before the next one.
class OffloadEverything {
 public:
  explicit OffloadEverything(const TaskGraph& graph)
      : graph_(graph),
        uses_(graph.data.size()),
        out_after_(graph.tasks.size()),
        in_before_(graph.tasks.size()) {
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      for (const auto* uses :
           {&graph.tasks[i].reads, &graph.tasks[i].writes, &graph.tasks[i].updates}) {
        for (const std::size_t data : *uses) uses_[data].push_back(i);
      }
    }
    for (std::size_t data = 0; data < uses_.size(); ++data) FindGap(data);
  }

  Schedule Make() {
    schedule_ = {"everything", GraphFingerprint(graph_), {}};
    std::vector<bool> is_allocated(graph_.data.size());
    const auto allocate = [&](std::size_t data) {
      if (is_allocated[data]) return;
      is_allocated[data] = true;
      Add(StepKind::kAllocate, data);
    };
    for (std::size_t data = 0; data < graph_.data.size(); ++data) {
      if (ExistsAfter(graph_.data[data])) allocate(data);
    }
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const GraphTask& task = graph_.tasks[i];
      for (const auto* uses : {&task.reads, &task.writes, &task.updates}) {
        for (const std::size_t data : *uses) allocate(data);
      }
      Add(StepKind::kRun, i);
      for (const std::size_t data : out_after_[i]) Add(StepKind::kOffload, data);
      if (i + 1 < in_before_.size()) {
        for (const std::size_t data : in_before_[i + 1]) Add(StepKind::kPrefetch, data);
      }
      FreeAfter(i);
    }
    return schedule_;
  }

 private:
  // Finds data for which two tasks in between do not use it: it leaves meanwhile.
  void FindGap(std::size_t data) {
    const std::vector<std::size_t>& uses = uses_[data];
    std::size_t longest = kNone;
    for (std::size_t i = 1; i < uses.size(); ++i) {
      const std::size_t gap = uses[i] - uses[i - 1];
      if (gap > 3 && (longest == kNone || gap > uses[longest] - uses[longest - 1])) longest = i;
    }
    if (longest == kNone || ExistsAfter(graph_.data[data])) return;
    out_after_[uses[longest - 1]].push_back(data);
    in_before_[uses[longest] - 1].push_back(data);
  }

  void FreeAfter(std::size_t task) {
    for (const auto* uses :
         {&graph_.tasks[task].reads, &graph_.tasks[task].writes, &graph_.tasks[task].updates}) {
      for (const std::size_t data : *uses) {
        if (uses_[data].back() == task && !ExistsAfter(graph_.data[data])) {
          Add(StepKind::kFree, data);
        }
      }
    }
  }

  void Add(StepKind kind, std::size_t index) {
    schedule_.steps.push_back({.kind = kind, .index = index});
  }

  const TaskGraph& graph_;
  std::vector<std::vector<std::size_t>> uses_;  // tasks, by data
  std::vector<std::vector<std::size_t>> out_after_;
  std::vector<std::vector<std::size_t>> in_before_;
  Schedule schedule_;
};

// Half of the tasks forward, half of them backward, each with its activation and gradient.
TaskGraph Chain(std::size_t tasks) {
  TaskGraph graph;
  graph.name = "chain";
  graph.data.push_back({"batch", 1 << 20, DataKind::kInput});
  const std::size_t half = tasks / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const std::string number = std::to_string(i);
    const auto bytes = static_cast<std::int64_t>(1 + (i * 7919 + 1) % 1000) << 16;
    graph.data.push_back({"activation " + number, bytes, DataKind::kActivation});
    graph.tasks.push_back({.name = "forward " + number,
                           .reads = {i},
                           .writes = {i + 1},
                           .algorithms = {{"only", 1e-3, 1 << 20}}});
  }
  for (std::size_t i = half; i-- > 0;) {
    const std::string number = std::to_string(i);
    graph.data.push_back({"gradient " + number, graph.data[i + 1].bytes, DataKind::kGradient});
    std::vector<std::size_t> reads = {i, i + 1};
    if (i + 1 < half) reads.push_back(graph.data.size() - 2);
    graph.tasks.push_back({.name = "backward " + number,
                           .phase = TaskPhase::kBackward,
                           .reads = reads,
                           .writes = {graph.data.size() - 1},
                           .algorithms = {{"only", 2e-3, 1 << 20}}});
  }
  return graph;
}

Timeline Check(const absl::StatusOr<Timeline>& timeline) {
  if (timeline.ok()) return *timeline;
  std::fprintf(stderr, "%s\n", timeline.status().ToString().c_str());
  std::exit(1);
}

// Measures with this share of the memory that the schedule takes when there is enough.
void Measure(benchmark::State& state, const TaskGraph& graph, const std::string& placement) {
  const Schedule schedule = OffloadEverything(graph).Make();
  Machine machine = {.devices = {{.memory_bytes = std::int64_t{1} << 42}}};
  const PlacingOptions options = {.placement = placement};
  const Timeline ample = Check(Simulate(graph, schedule, machine, options));
  machine.devices.front().memory_bytes = ample.pool_bytes / 100 * state.range(0);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Simulate(graph, schedule, machine, options));
  }
  const Timeline timeline = Check(Simulate(graph, schedule, machine, options));
  state.counters["tasks"] = static_cast<double>(graph.tasks.size());
  state.counters["steps"] = static_cast<double>(timeline.resolved.steps.size());
  state.counters["out_GiB"] = static_cast<double>(timeline.bytes_out) / 0x1p30;
  state.counters["pool_GiB"] = static_cast<double>(timeline.pool_bytes) / 0x1p30;
  state.counters["stalls"] = static_cast<double>(timeline.stalls.size());
}

void ResNet152(benchmark::State& state) {
  Measure(state, MakeModel("resnet152", {.batch = 64, .inputs = DataHome::kDevice}).value(),
          "best-fit");
}
BENCHMARK(ResNet152)->Arg(100)->Arg(70)->Unit(benchmark::kMillisecond);

void TenThousandTasks(benchmark::State& state) { Measure(state, Chain(10'000), "best-fit"); }
BENCHMARK(TenThousandTasks)->Arg(100)->Arg(70)->Unit(benchmark::kMillisecond);

void TenThousandTasksHighEnd(benchmark::State& state) {
  Measure(state, Chain(10'000), "high-end-offload");
}
BENCHMARK(TenThousandTasksHighEnd)->Arg(100)->Unit(benchmark::kMillisecond);

// Measures the part of Simulate that checks the schedule.
void Validate(benchmark::State& state) {
  const TaskGraph graph =
      MakeModel("resnet152", {.batch = 64, .inputs = DataHome::kDevice}).value();
  const Schedule schedule = OffloadEverything(graph).Make();
  for (auto _ : state) {
    benchmark::DoNotOptimize(ValidateSchedule(graph, schedule));
  }
}
BENCHMARK(Validate)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tidepool::bench

BENCHMARK_MAIN();
