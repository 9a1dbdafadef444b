// SPDX-License-Identifier: Apache-2.0
// Tests policies of chains on graphs: every schedule is valid, and no slower than on the chain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/check_times/check_times.h"
#include "tests/support/expect_valid.h"
#include "tests/support/rounds.h"
#include "tests/training/chain/lasting_graphs.h"
#include "tests/training/chain/micro_batch_graphs.h"
#include "tests/training/graph/random_graph.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kRecomputingPolicies[] = {"recompute", "pofo"};
constexpr const char* kChainedPolicies[] = {"greedy", "dynprog", "vdnn-ratio", "autoswap", "tflms"};

// A link with one transfer at a time, as chains have.
ScheduleRequest OneWayRequest(std::int64_t memory_bytes) {
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = memory_bytes;
  request.machine.links.front().full_duplex = false;
  return request;
}

// With slots no search for the optimum follows, which takes seconds.
ScheduleRequest InSlots(std::int64_t memory_bytes) {
  ScheduleRequest request = OneWayRequest(memory_bytes);
  request.options = GraphChainOptions{.chain = {.slots = 100}};
  return request;
}

std::int64_t ChainPeakOf(const TaskGraph& graph) {
  const GraphChain made =
      ToChain(graph, {.memory_bytes = std::int64_t{1} << 50, .link_bytes_per_second = 1e9}).value();
  return ChainPeak(made.chain) + made.resident_bytes;
}

TEST(ChainedPolicy, SchedulesAreValidInAnyMemory) {
  int moved = 0;
  for (const char* name : {"alexnet", "vgg-16", "resnet-18"}) {
    const TaskGraph graph = MakeModel(name, {.batch = 16}).value();
    const std::int64_t peak = ChainPeakOf(graph);
    for (const char* policy : kChainedPolicies) {
      for (const double share : {0.5, 0.7, 0.9, 1.1}) {
        for (const auto memory : {ScheduleMemory::kPaged, ScheduleMemory::kFixed}) {
          SCOPED_TRACE(::testing::Message() << name << " " << policy << " " << share);
          ScheduleRequest request =
              OneWayRequest(static_cast<std::int64_t>(static_cast<double>(peak) * share));
          request.memory = memory;
          const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy, graph, request);
          if (absl::IsResourceExhausted(made.status())) continue;
          ASSERT_TRUE(made.ok()) << made.status();
          ExpectValid(*made);
          if (HasFailure()) return;
          const Timeline timeline = Simulate(*made).value();
          EXPECT_GE(timeline.seconds, made->lower_bound_seconds * (1 - 1e-9));
          EXPECT_LE(timeline.peak_device_bytes, request.machine.devices.front().memory_bytes);
          moved += timeline.bytes_out > 0 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(moved, 20);
}

TEST(ChainedPolicy, TasksRunAgainInLittleMemory) {
  const TaskGraph graph = MakeModel("gpt2-small", {.batch = 4}).value();
  const GraphChain all =
      ToChain(graph, {.memory_bytes = std::int64_t{1} << 50, .link_bytes_per_second = 1e9}).value();
  const auto peak = static_cast<double>(ChainPeak(all.chain));
  int repeated = 0;
  for (const char* policy : kRecomputingPolicies) {
    for (const double share : testing::Cases({0.6, 0.8, 1.2})) {
      SCOPED_TRACE(::testing::Message() << policy << " " << share);
      const auto bytes = static_cast<std::int64_t>(peak * share);
      const absl::StatusOr<MadeSchedule> made =
          MakeSchedule(policy, graph, OneWayRequest(all.resident_bytes + bytes));
      ASSERT_TRUE(made.ok()) << made.status();
      ExpectValid(*made);
      repeated += RunsOf(made->schedule) > graph.tasks.size() ? 1 : 0;
    }
  }
  EXPECT_GT(repeated, 1);
}

// Blocks of which backward tasks read no input run again from the sums between them.
TEST(ChainedPolicy, BlocksRunAgainFromSumsThatForwardTasksAloneRead) {
  const TaskGraph graph = testing::ResidualGraph(8, 1 << 20, 16 << 20);
  for (const char* policy : kRecomputingPolicies) {
    SCOPED_TRACE(policy);
    ScheduleRequest request = OneWayRequest(84 << 20);  // of 147 MiB
    request.machine.links.front().out_bytes_per_second = 1;
    request.machine.links.front().in_bytes_per_second = 1;
    const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy, graph, request);
    ASSERT_TRUE(made.ok()) << made.status();
    ExpectValid(*made);
    EXPECT_GT(RunsOf(made->schedule), graph.tasks.size());
  }
}

TEST(ChainedPolicy, PagesTakeNoLongerThanTheChain) {
  const TaskGraph graph = MakeModel("vgg-16", {.batch = 16, .inputs = DataHome::kDevice}).value();
  for (const double share : {0.6, 0.8}) {
    const auto memory = static_cast<std::int64_t>(static_cast<double>(ChainPeakOf(graph)) * share);
    ScheduleRequest request = OneWayRequest(memory);
    request.memory = ScheduleMemory::kPaged;
    request.placing.alignment = 1;
    request.options = GraphChainOptions{.algorithms = AlgorithmChoice::kLeastMemory};
    const GraphChain chain =
        ToChain(graph,
                {.memory_bytes = memory,
                 .link_bytes_per_second = request.machine.links.front().out_bytes_per_second})
            .value();
    for (const char* policy : kChainedPolicies) {
      const absl::StatusOr<ChainSchedule> on_chain = MakeChainSchedule(policy, chain.chain, {});
      const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy, graph, request);
      ASSERT_EQ(on_chain.ok(), made.ok()) << policy << " " << made.status();
      if (!made.ok()) continue;
      EXPECT_LE(Simulate(*made)->seconds, on_chain->seconds * (1 + 1e-9)) << policy << " " << share;
      EXPECT_EQ(made->schedule.policy, std::string(policy) + "(m)");
    }
  }
}

TEST(ChainedPolicy, RoundsNeedLessMemoryThanTheBatch) {
  const GraphFamily family = MakeModelFamily("vgg-16", {}, std::vector<std::int64_t>{1}).value();
  const std::int64_t peak = ChainPeakOf(GraphAt(family, 32).value());
  ScheduleRequest request = OneWayRequest(peak / 2);
  request.batch = 32;
  request.sub_batch = 8;
  for (const char* policy : {"greedy", "dynprog"}) {
    const absl::StatusOr<MadeSchedule> made = MakeSchedule(policy, family, request);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->rounds, 4);
    ExpectValid(*made);
  }
  request.sub_batch = kLargestSubBatch;
  EXPECT_TRUE(MakeSchedule("greedy", family, request).ok());
}

TEST(ChainedPolicy, MemoryThatIsTooSmallIsRefused) {
  const TaskGraph graph = MakeModel("vgg-16", {.batch = 16}).value();
  for (const char* policy : kChainedPolicies) {
    const GraphChain made =
        ToChain(graph, {.memory_bytes = std::int64_t{1} << 40, .link_bytes_per_second = 1e9})
            .value();
    const absl::Status status =
        MakeSchedule(policy, graph, OneWayRequest(made.resident_bytes + (1 << 20))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("the tasks from '"), HasSubstr("alone need "), HasSubstr("bytes")));
  }
}

// Gradients that the iteration makes leave their memory to the activations before.
TEST(ChainedPolicy, GradientsTakeMemoryFromTheirTasksOn) {
  TaskGraph graph = MakeModel("gpt-2", {.batch = 4}).value();
  const GraphChain made = ToChain(graph, {.memory_bytes = std::int64_t{1} << 50,
                                          .link_bytes_per_second = 1e9,
                                          .recomputation = true})
                              .value();
  const std::size_t last = made.parts.size() - 1;
  const std::int64_t loss = made.chain.output[last] + made.chain.x[last + 1] + made.chain.y[last] +
                            made.chain.backward_extra[last];
  const ScheduleRequest request = InSlots(made.resident_bytes + loss - 1);
  for (const char* policy : kRecomputingPolicies) {
    EXPECT_TRUE(absl::IsResourceExhausted(MakeSchedule(policy, graph, request).status()));
  }
  testing::MakeGradientsInIteration(graph);
  for (const char* policy : kRecomputingPolicies) {
    const auto schedule = MakeSchedule(policy, graph, request);
    ASSERT_TRUE(schedule.ok()) << policy << schedule.status();
    ExpectValid(*schedule);
  }
}

// Each micro-batch is a chain, and data that others need stays.
TEST(ChainedPolicy, MicroBatchesAreChainsInARow) {
  TaskGraph plain = MakeModel("gpt-2", {.batch = 4}).value();
  testing::AddMasks(plain, std::int64_t{1} << 20);
  testing::MakeGradientsInIteration(plain);
  const TaskGraph graph = testing::WithMicroBatches(plain, 3);
  const MadeSchedule all =
      MakeSchedule("none", graph, OneWayRequest(std::int64_t{1} << 40)).value();
  const Timeline ideal = Simulate(all).value();
  for (const char* policy : {"recompute", "pofo", "greedy"}) {
    SCOPED_TRACE(policy);
    const ScheduleRequest request = InSlots(ideal.peak_device_bytes / 4 * 3);
    const auto made = MakeSchedule(policy, graph, request);
    ASSERT_TRUE(made.ok()) << made.status();
    ExpectValid(*made);
    const Timeline timeline = Simulate(*made).value();
    EXPECT_LE(timeline.peak_device_bytes, request.machine.devices.front().memory_bytes);
    EXPECT_GT(timeline.seconds, ideal.seconds);
    // The chain that others see is that of the last one.
    const GraphChain chain = ChainOfGraph(policy, graph, request).value();
    EXPECT_EQ(chain.parts.front().backward_end, graph.tasks.size());
    EXPECT_GT(chain.parts.front().forward_begin, graph.tasks.size() / 2);
  }
}

// Returns micro-batches, or tasks of random phases. Data is at home on the device.
TaskGraph RandomPhases(testing::RandomGraphs& random) {
  if (random.Chance(0.5)) {
    TaskGraph graph = testing::RandomMicroBatches(random);
    for (GraphData& data : graph.data) {
      if (ExistsAfter(data)) data.before = data.after = DataHome::kDevice;
    }
    return graph;
  }
  TaskGraph graph = random.Valid(random.Below(24) + 2);
  for (GraphTask& task : graph.tasks) {
    task.phase = random.Chance(0.5) ? TaskPhase::kForward : TaskPhase::kBackward;
    task.may_rerun = task.updates.empty() && random.Chance(0.8);
  }
  graph.tasks.front().phase = TaskPhase::kForward;
  return graph;
}

TEST(ChainedPolicy, RandomPhasesAreChainsInARow) {
  testing::RandomGraphs random(7);
  const int rounds = testing::Rounds(150);
  int again = 0;
  for (int i = 0; i < rounds; ++i) {
    const TaskGraph graph = RandomPhases(random);
    SCOPED_TRACE(GraphJson(graph));
    ScheduleRequest request = OneWayRequest(std::int64_t{1} << 40);
    request.placing.alignment = 1;
    const Timeline all = Simulate(MakeSchedule("none", graph, request).value()).value();
    for (const char* policy : {"recompute", "pofo", "greedy"}) {
      for (const std::int64_t eighths : {8, 7, 6}) {
        request.machine.devices.front().memory_bytes = all.peak_device_bytes * eighths / 8;
        const auto made = MakeSchedule(policy, graph, request);
        if (absl::IsResourceExhausted(made.status())) continue;
        ASSERT_TRUE(made.ok()) << policy << made.status();
        ExpectValid(*made);
        if (HasFailure()) return;
        again += RunsOf(made->schedule) > graph.tasks.size() ? 1 : 0;
      }
    }
  }
  EXPECT_GE(again, rounds / 20);
}

// F_1 and B_1 read the output of F_0, and not all of its result.
TEST(ChainedPolicy, OperationsNeedOutputsAlone) {
  constexpr std::int64_t kUnit = 1 << 20;
  const TaskGraph graph = FromChain({.forward_seconds = {1, 1},
                                     .backward_seconds = {1, 1},
                                     .forward_extra = {0, 0},
                                     .backward_extra = {0, 0},
                                     .x = {kUnit, 100 * kUnit, 100 * kUnit},
                                     .y = {0, 0, 0},
                                     .link_bytes_per_second = 1e9,
                                     .memory_bytes = 0,
                                     .output = {kUnit, 10 * kUnit, 100 * kUnit}})
                              .value();
  const auto made = MakeSchedule("recompute", graph, OneWayRequest(150 * kUnit));
  ASSERT_TRUE(made.ok()) << made.status();
  ExpectValid(*made);
}

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::size_t kLayers = 6;

// Returns a chain of six layers with activations of 8 MiB, and the number of an input of 64 MiB
// that no task uses.
std::pair<TaskGraph, std::size_t> ChainWithInput() {
  TaskGraph graph = FromChain({.forward_seconds = std::vector<double>(kLayers, 1),
                               .backward_seconds = std::vector<double>(kLayers, 1),
                               .forward_extra = std::vector<std::int64_t>(kLayers),
                               .backward_extra = std::vector<std::int64_t>(kLayers),
                               .x = std::vector<std::int64_t>(kLayers + 1, 8 * kMiB),
                               .y = std::vector<std::int64_t>(kLayers + 1, kMiB),
                               .link_bytes_per_second = 1e9,
                               .memory_bytes = 0})
                        .value();
  graph.data.push_back({.name = "table",
                        .bytes = 64 * kMiB,
                        .kind = DataKind::kInput,
                        .before = DataHome::kDevice,
                        .after = DataHome::kNowhere});
  return {graph, graph.data.size() - 1};
}

// Schedules a graph with less and less memory. Returns how many schedules run tasks again.
int TimesRunAgain(const TaskGraph& graph) {
  const std::int64_t peak =
      Simulate(MakeSchedule("none", graph, OneWayRequest(std::int64_t{1} << 40)).value())
          ->peak_device_bytes;
  int again = 0;
  for (const char* policy : kRecomputingPolicies) {
    for (std::int64_t less = 0; less < 48 * kMiB; less += 4 * kMiB) {
      ScheduleRequest request = OneWayRequest(peak - less);
      request.memory = ScheduleMemory::kPaged;
      const auto made = MakeSchedule(policy, graph, request);
      if (absl::IsResourceExhausted(made.status())) continue;
      EXPECT_TRUE(made.ok()) << policy << made.status();
      if (made.ok()) ExpectValid(*made);
      again += made.ok() && RunsOf(made->schedule) > graph.tasks.size() ? 1 : 0;
    }
  }
  return again;
}

// An input of a later layer takes its memory once.
TEST(ChainedPolicy, AnInputOfOneLayerCountsOnce) {
  auto [graph, input] = ChainWithInput();
  graph.tasks[2].reads.push_back(input);
  graph.tasks[2 * kLayers - 3].reads.push_back(input);
  EXPECT_GE(TimesRunAgain(graph), 6);
}

TEST(ChainedPolicy, NoLayerRunsAgainOnAnInputThatHasChanged) {
  auto [graph, input] = ChainWithInput();
  graph.data[input].bytes = kMiB;
  graph.tasks[1].reads.push_back(input);
  graph.tasks[3].updates.push_back(input);
  graph.tasks[3].may_rerun = false;
  EXPECT_GE(TimesRunAgain(graph), 1);
}

// A gradient may take the place of an activation.
TEST(ChainedPolicy, NoLayerMakesAnActivationAgainThatHasChanged) {
  TaskGraph graph = ChainWithInput().first;
  graph.data.pop_back();
  const std::size_t activation = graph.tasks[2].writes.front();
  GraphTask& later = graph.tasks[kLayers + 2];  // the backward task of layer 3
  std::erase(later.reads, activation);
  later.updates.push_back(activation);
  TimesRunAgain(graph);
}

TEST(ChainedPolicy, OptionsAreThePoliciesOwn) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 1}).value();
  ScheduleRequest request = OneWayRequest(std::int64_t{1} << 40);
  request.options = LayerwiseOptions{};
  EXPECT_THAT(MakeSchedule("greedy", graph, request).status().message(),
              HasSubstr("the options are those of another policy"));
  request.options = GraphChainOptions{};
  for (const char* policy : {"none", "vdnn", "vdnn++", "base"}) {
    EXPECT_THAT(MakeSchedule(policy, graph, request).status().message(),
                HasSubstr("the options are those of another policy"));
  }
  request.options = GraphChainOptions{.chain = {.time_limit_seconds = 0}};
  EXPECT_EQ(MakeSchedule("greedy", graph, request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request.options = {};
  request.memory = ScheduleMemory::kPool;
  EXPECT_THAT(MakeSchedule("greedy", graph, request).status().message(),
              HasSubstr("policy 'greedy' makes no schedules with a pool"));
}

}  // namespace
}  // namespace tidepool
