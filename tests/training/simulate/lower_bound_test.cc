// SPDX-License-Identifier: Apache-2.0
// The lower bound by hand, against the bound of chains, and against simulated schedules.
#include "tidepool/training/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "policies/training/chain/transfer_schedule.h"
#include "tests/support/pool_machine.h"
#include "tests/support/rounds.h"
#include "tests/training/chain/random_chain.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/schedule/random_program.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using testing::RandomChains;
using testing::RandomPrograms;
using testing::Rounds;

// Tasks of 1, 2, 8 and 4 seconds. The third one uses nothing of the others, and the last one reads
// all that they have made.
TaskGraph FourTasks() {
  TaskGraph graph;
  graph.name = "four";
  graph.data = {
      {"input", 10, DataKind::kInput}, {"keep", 100}, {"middle", 50}, {"last", 1}, {"own", 60}};
  graph.tasks = {{.name = "a", .reads = {0}, .writes = {1}, .algorithms = {{"only", 1, 0}}},
                 {.name = "b", .reads = {1}, .writes = {2}, .algorithms = {{"only", 2, 30}}},
                 {.name = "apart", .writes = {4}, .algorithms = {{"only", 8, 20}}},
                 {.name = "c", .reads = {1, 2}, .writes = {3}, .algorithms = {{"only", 4, 0}}}};
  return graph;
}

Schedule InOrder(const TaskGraph& graph) {
  Schedule schedule;
  schedule.memory = ScheduleMemory::kPaged;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    schedule.steps.push_back({.kind = StepKind::kRun, .index = i});
  }
  return schedule;
}

Machine MachineWith(std::int64_t memory_bytes, bool full_duplex = true) {
  Machine machine;
  machine.devices[0].memory_bytes = memory_bytes;
  machine.links[0] = {
      .out_bytes_per_second = 10, .in_bytes_per_second = 5, .full_duplex = full_duplex};
  return machine;
}

TEST(LowerBound, CountsBytesThatDoNotFitBesideATask) {
  const TaskGraph graph = FourTasks();
  const Schedule schedule = InOrder(graph);
  // While "apart" runs, 100 + 50 bytes of others and 60 + 20 of its own are alive.
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(230)), 1 + 2 + 8 + 4);
  // 100 bytes leave in 10 seconds, from the end of "a" on. They come back in 20, before "c".
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(130)), 1 + 10 + 8 + 20 + 4);
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(130, false)), 1 + 10 + 8 + 20 + 4);
  // No more than the 150 bytes of others can leave.
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(1)), 1 + 15 + 8 + 30 + 4);
}

TEST(LowerBound, CountsHomesOnTheHost) {
  TaskGraph graph = FourTasks();
  graph.data[0].before = DataHome::kHost;
  const Schedule schedule = InOrder(graph);
  // The input comes in 2 seconds before the first task.
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(1000)), 2 + 1 + 2 + 8 + 4);
  graph.data[3].after = DataHome::kHost;
  graph.data[3].bytes = 40;
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(1000)), 2 + 1 + 2 + 8 + 4 + 4);
  // A clean copy is on the host: the input need not be copied out before "apart".
  graph.tasks.back().reads.push_back(0);
  // It comes back before the last task.
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(230)), 2 + 1 + 2 + 8 + 2 + 4 + 4);
  // 50 bytes of "a" leave as well, and come back with the input.
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(180)), 2 + 1 + 5 + 8 + 12 + 4 + 4);
}

// The memory of an input may be allocated before its first use.
TEST(LowerBound, AllowsInputsToComeLate) {
  TaskGraph graph = FourTasks();
  graph.tasks[0].reads.clear();
  graph.tasks[3].reads.push_back(0);
  graph.data[0].bytes = 100;
  const Schedule schedule = InOrder(graph);
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(251)), 1 + 2 + 8 + 4);
  graph.data[0] = {"weight", 100, DataKind::kWeight};
  EXPECT_GT(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(251)), 1 + 2 + 8 + 4);
}

TEST(LowerBound, AllowsWhatTheScheduleDoes) {
  TaskGraph graph = FourTasks();
  graph.tasks[0].may_rerun = true;
  Schedule schedule = InOrder(graph);
  const double bound = LowerBoundSeconds({&graph, 1}, schedule, MachineWith(130));
  // "keep" may be made again.
  schedule.steps.insert(schedule.steps.begin() + 3, schedule.steps[0]);
  EXPECT_LT(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(130)), bound);
  schedule = InOrder(graph);
  schedule.steps.push_back({.kind = StepKind::kOffload, .index = 1, .density = 0.46875});
  Machine compressing = MachineWith(130);
  compressing.devices[0].compressor = {1000, 1000};
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, compressing), 1 + 5 + 8 + 10 + 4);
  // The engine is the slower one, of copies out alone.
  compressing.devices[0].compressor = {12.5, 1000};
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, compressing), 1 + 8 + 8 + 10 + 4);
  schedule.memory = ScheduleMemory::kPool;
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, MachineWith(130)), 15);
  schedule = InOrder(graph);
  schedule.steps[1].stream = 1;
  Machine machine = MachineWith(130);
  machine.devices[0].compute_streams = 2;
  // "apart" runs beside the others, and they take 1 + 2 + 4 seconds one after the other.
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, machine), 8);
  // Another schedule may use both streams.
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, InOrder(graph), machine), 8);
  machine.devices[0].compute_streams = 1;
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, schedule, machine), 15);
  EXPECT_EQ(LowerBoundSeconds({&graph, 1}, Schedule(), machine), 0);
}

// Returns the bound from the bytes that the chain has beside each operation.
double SlowChainBound(const Chain& chain) {
  std::vector<double> seconds = chain.forward_seconds;
  seconds.insert(seconds.end(), chain.backward_seconds.rbegin(), chain.backward_seconds.rend());
  std::vector<std::int64_t> bytes = ForwardBytes(chain);
  const std::vector<std::int64_t> backward = BackwardBytes(chain);
  bytes.insert(bytes.end(), backward.rbegin(), backward.rend());
  const auto transfer = [&](std::size_t k) {
    return static_cast<double>(bytes[k] - chain.memory_bytes) / chain.link_bytes_per_second;
  };
  double bound = 0;
  // Every pair of operations, the first of which waits before it and the second one after it.
  for (std::size_t first = 0; first < seconds.size(); ++first) {
    double sum = std::max(0.0, transfer(first));
    for (std::size_t k = first; k < seconds.size(); ++k) {
      sum += seconds[k];
      bound = std::max(bound, sum + std::max(0.0, transfer(k)));
    }
  }
  return bound;
}

TEST(LowerBound, IsNoLessThanThatOfChains) {
  RandomChains random(7);
  int raised = 0;
  for (int i = 0; i < Rounds(500); ++i) {
    SCOPED_TRACE(i);
    const Chain chain = random.Next(static_cast<std::size_t>(1 + random.Below(6)));
    const absl::StatusOr<TaskGraph> graph = FromChain(chain);
    ASSERT_TRUE(graph.ok()) << graph.status();
    Machine machine;
    // The weight that keeps tasks in order takes a byte beside the chain.
    const bool has_weight =
        std::any_of(graph->data.begin(), graph->data.end(),
                    [](const GraphData& data) { return data.kind == DataKind::kWeight; });
    machine.devices[0].memory_bytes = chain.memory_bytes + (has_weight ? 1 : 0);
    machine.links[0] = {.out_bytes_per_second = chain.link_bytes_per_second,
                        .in_bytes_per_second = chain.link_bytes_per_second,
                        .full_duplex = false};
    const double bound = LowerBoundSeconds({&*graph, 1}, InOrder(*graph), machine);
    ASSERT_GE(bound, SlowChainBound(chain) - 1e-9);
    ASSERT_GE(bound, ChainOperationBound(chain) - 1e-9);
    raised += bound > SlowChainBound(chain) + 1e-9 ? 1 : 0;
  }
  EXPECT_GT(raised, Rounds(500) / 10);
}

// Returns the simulated seconds, with room for the rounding of sums.
double WithRounding(const Timeline& timeline) { return timeline.seconds * (1 + 1e-9) + 1e-9; }

TEST(LowerBound, IsBelowRandomPrograms) {
  int raised = 0;
  for (int seed = 0; seed < Rounds(2000); ++seed) {
    SCOPED_TRACE(seed);
    const RandomPrograms random(static_cast<std::uint64_t>(seed));
    const Program program = LowerSchedule(random.graphs, random.schedule, random.machine).value();
    const double bound = LowerBoundSeconds(random.graphs, random.schedule, random.machine);
    ASSERT_LE(bound, WithRounding(SimulateProgram(random.graphs[0], program)));
    const bool is_one_round = random.schedule.rounds.empty();
    raised += is_one_round && bound > TotalsOf(random.graphs[0]).least_seconds * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GT(raised, Rounds(2000) / 20);
}

TEST(LowerBound, IsBelowSchedulesOfNetworks) {
  for (const char* name : {"alexnet", "resnet-50", "gpt2-small", "unet"}) {
    SCOPED_TRACE(name);
    const TaskGraph graph = MakeModel(name, {.batch = 8, .inputs = DataHome::kDevice}).value();
    const Schedule schedule = testing::OffloadEverything(graph, {}).Make();
    testing::PoolMachine options;
    options.memory() = std::int64_t{1} << 40;
    options.SetRate(2e9);
    const Timeline plenty = Simulate(graph, schedule, options).value();
    options.memory() = plenty.pool_bytes;
    for (const bool one_way : {false, true}) {
      options.link().full_duplex = !one_way;
      const absl::StatusOr<Timeline> timeline = Simulate(graph, schedule, options);
      ASSERT_TRUE(timeline.ok()) << timeline.status();
      const double bound = LowerBoundSeconds({&graph, 1}, schedule, options.machine);
      EXPECT_LE(bound, WithRounding(*timeline));
      EXPECT_GE(bound, TotalsOf(graph).least_seconds);
    }
  }
}

TEST(LowerBound, IsBelowSchedulesOfChains) {
  for (const char* name : {"alexnet", "vgg-16", "resnet-50", "gpt2-small"}) {
    SCOPED_TRACE(name);
    const TaskGraph graph = MakeModel(name, {.batch = 16}).value();
    const GraphChain whole =
        ToChain(graph, {.memory_bytes = std::int64_t{1} << 40, .link_bytes_per_second = 1e9})
            .value();
    const std::int64_t memory =
        whole.resident_bytes + (ChainPeak(whole.chain) + LeastChainMemory(whole.chain)) / 2;
    const GraphChain made =
        ToChain(graph, {.memory_bytes = memory, .link_bytes_per_second = 1e9}).value();
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < made.chain.forward_seconds.size(); ++i) all.push_back(i);
    const absl::StatusOr<ChainSchedule> chain = chain_policies::ScheduleSet(made.chain, all);
    ASSERT_TRUE(chain.ok()) << chain.status();
    const absl::StatusOr<Schedule> schedule = ScheduleChain(graph, made, *chain);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    Machine machine;
    machine.devices[0].memory_bytes = memory;
    machine.links[0] = {
        .out_bytes_per_second = 1e9, .in_bytes_per_second = 1e9, .full_duplex = false};
    const Timeline timeline = Simulate({&graph, 1}, *schedule, machine).value();
    const double bound = LowerBoundSeconds({&graph, 1}, *schedule, machine);
    EXPECT_LE(bound, WithRounding(timeline));
    EXPECT_GT(bound, 1.1 * TotalsOf(graph).least_seconds);
  }
}

}  // namespace
}  // namespace tidepool
