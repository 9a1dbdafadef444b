// SPDX-License-Identifier: Apache-2.0
// Claim: a schedule file of 100,000 steps is read in less than 0.2 s, and its steps are checked in
// about as much.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tidepool/training/schedule_file.h"

namespace tidepool::bench {
namespace {

// A chain in which each activation leaves after its forward task and comes back for its backward
// task: 12 steps a layer.
TaskGraph ChainOf(std::size_t layers) {
  TaskGraph graph;
  graph.name = "chain";
  graph.data.push_back({"batch", 1 << 20, DataKind::kInput});
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string number = std::to_string(i);
    graph.data.push_back({"activation " + number, 1 << 20, DataKind::kActivation});
    graph.tasks.push_back({.name = "forward " + number,
                           .reads = {i},
                           .writes = {i + 1},
                           .algorithms = {{"only", 1e-3, 1 << 10}}});
  }
  for (std::size_t i = layers; i-- > 0;) {
    const std::string number = std::to_string(i);
    graph.data.push_back({"gradient " + number, 1 << 20, DataKind::kGradient});
    GraphTask task = {.name = "backward " + number,
                      .phase = TaskPhase::kBackward,
                      .reads = {i, i + 1},
                      .writes = {graph.data.size() - 1},
                      .algorithms = {{"only", 2e-3, 1 << 10}}};
    if (i + 1 < layers) task.reads.push_back(graph.data.size() - 2);
    graph.tasks.push_back(std::move(task));
  }
  return graph;
}

Schedule OffloadsOf(const TaskGraph& graph, std::size_t layers) {
  Schedule schedule;
  schedule.policy = "chain";
  schedule.fingerprint = GraphFingerprint(graph);
  schedule.memory = ScheduleMemory::kFixed;
  const auto add = [&](StepKind kind, std::size_t index, std::int64_t offset) {
    ScheduleStep& step = schedule.steps.emplace_back();
    step.kind = kind;
    step.index = index;
    step.offset = offset;
  };
  add(StepKind::kAllocate, 0, 0);
  for (std::size_t i = 0; i < layers; ++i) {
    const auto place = static_cast<std::int64_t>(i % 4 << 21);
    add(StepKind::kAllocate, i + 1, place);
    add(StepKind::kRun, i, 1 << 24);
    add(StepKind::kOffload, i, -1);
    add(StepKind::kDrop, i, -1);
  }
  for (std::size_t i = layers; i-- > 0;) {
    const std::size_t gradient = 2 * layers - i;
    const auto place = static_cast<std::int64_t>(i % 4 << 21);
    add(StepKind::kPrefetch, i, place);
    add(StepKind::kAllocate, gradient, place + (1 << 23));
    add(StepKind::kRun, gradient - 1, 1 << 24);
    add(StepKind::kFree, i + 1, -1);
    if (i + 1 < layers) add(StepKind::kFree, gradient - 1, -1);
  }
  add(StepKind::kFree, 0, -1);
  add(StepKind::kFree, 2 * layers, -1);
  return schedule;
}

constexpr std::size_t kLayers = 11'112;  // some 100,000 steps

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

void ReadScheduleFile(benchmark::State& state) {
  const TaskGraph graph = ChainOf(kLayers);
  const std::string json = ScheduleJson({OffloadsOf(graph, kLayers), graph.name});
  for (auto _ : state) {
    const absl::StatusOr<ScheduleFile> file = ParseSchedule(json, "bench");
    Require(file.status());
    state.counters["steps"] = static_cast<double>(file->schedule.steps.size());
  }
  state.counters["bytes"] = static_cast<double>(json.size());
}
BENCHMARK(ReadScheduleFile)->Unit(benchmark::kMillisecond);

void WriteScheduleFile(benchmark::State& state) {
  const TaskGraph graph = ChainOf(kLayers);
  const ScheduleFile file = {OffloadsOf(graph, kLayers), graph.name};
  for (auto _ : state) benchmark::DoNotOptimize(ScheduleJson(file));
}
BENCHMARK(WriteScheduleFile)->Unit(benchmark::kMillisecond);

void ValidateFixedAddresses(benchmark::State& state) {
  const TaskGraph graph = ChainOf(kLayers);
  const Schedule schedule = OffloadsOf(graph, kLayers);
  for (auto _ : state) Require(ValidateSchedule(graph, schedule));
}
BENCHMARK(ValidateFixedAddresses)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tidepool::bench

BENCHMARK_MAIN();
