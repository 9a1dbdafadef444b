// SPDX-License-Identifier: Apache-2.0
// Tests schedules of moDNN: valid by the three checkers at all memories from the bound on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "policies/training/sub_batch/paper_values.h"
#include "tests/policies/training/modnn/valid_schedule.h"
#include "tests/support/rounds.h"
#include "tests/training/graph/random_graph.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

using testing::CheckMade;
using ::testing::HasSubstr;

ScheduleRequest RequestFor(std::int64_t memory, const ModnnOptions& options = {}) {
  ScheduleRequest request = {.options = options};
  request.machine.devices = {{.memory_bytes = memory}};
  return request;
}

// Returns the memory that a graph needs with all of its data at once.
std::int64_t AllBytes(const TaskGraph& graph, std::int64_t alignment) {
  std::int64_t bytes = 0;
  std::int64_t workspace = 0;
  for (const GraphData& data : graph.data) {
    bytes += (data.bytes + alignment - 1) / alignment * alignment;
  }
  for (const GraphTask& task : graph.tasks) {
    workspace = std::max(workspace, task.algorithms.back().workspace_bytes);
  }
  return bytes + (workspace + alignment - 1) / alignment * alignment;
}

class RandomIterations {
 public:
  explicit RandomIterations(std::uint64_t seed) : random_(seed) {}

  // Checks one random graph at a random memory.
  void Check() {
    const TaskGraph graph = Graph();
    ScheduleRequest request = Request();
    const std::int64_t bound =
        LeastMemory(graph, request.placing.alignment, StayingData::kAtHome).bytes;
    const std::int64_t all = AllBytes(graph, request.placing.alignment);
    MachineDevice& device = request.machine.devices.front();
    device.memory_bytes = bound;
    if (random_.Chance(0.7)) {
      device.memory_bytes += static_cast<std::int64_t>(
          random_.Below(static_cast<std::size_t>(std::max<std::int64_t>(all - bound, 0)) + 2));
    }
    const absl::StatusOr<MadeSchedule> made = MakeSchedule("modnn", graph, request);
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_EQ(CheckMade(*made), absl::OkStatus());
    request.machine.devices.front().memory_bytes = bound - 1;
    ASSERT_EQ(MakeSchedule("modnn", graph, request).status().code(),
              absl::StatusCode::kResourceExhausted);
  }

 private:
  TaskGraph Graph() {
    if (random_.Chance(0.5)) return testing::RandomTraining(random_).Make(1 + random_.Below(6));
    TaskGraph graph = random_.Valid(2 + random_.Below(25));
    random_.MoveHomes(graph);
    return graph;
  }

  ScheduleRequest Request() {
    ScheduleRequest request = RequestFor(0, {.as_printed = random_.Chance(0.3)});
    request.placing.alignment = std::int64_t{1} << random_.Below(4);
    MachineLink& link = request.machine.links.front();
    const double rate = std::array<double, 3>{1, 1e3, 1e6}[random_.Below(3)];
    link = {.out_bytes_per_second = rate,
            .in_bytes_per_second = 2 * rate,
            .latency_seconds = random_.Chance(0.5) ? 0.25 : 0,
            .full_duplex = random_.Chance(0.6)};
    return request;
  }

  testing::RandomGraphs random_;
};

// TIDEPOOL_RANDOM_GRAPHS asks for more of them.
TEST(Modnn, RandomGraphsRunAtAllMemoriesFromTheBoundOn) {
  const char* count = std::getenv("TIDEPOOL_RANDOM_GRAPHS");
  const int graphs = count != nullptr ? std::atoi(count) : testing::Rounds(300);
  for (int i = 0; i < graphs; ++i) {
    SCOPED_TRACE(i);
    RandomIterations(static_cast<std::uint64_t>(i)).Check();
    if (HasFatalFailure()) return;
  }
}

// Returns the request for rounds on a K40's 12 GB link.
ScheduleRequest RoundsRequest(std::int64_t batch, std::int64_t sub_batch, std::int64_t memory,
                              std::size_t devices = 1) {
  ScheduleRequest request = RequestFor(memory);
  request.batch = batch;
  request.sub_batch = sub_batch;
  request.devices = devices;
  request.machine.devices.resize(devices, request.machine.devices.front());
  request.machine.host.cores = 4;
  return request;
}

class ModnnNetworks : public ::testing::TestWithParam<std::string> {
 protected:
  GraphFamily Family(const ModelOptions& options = {}) const {
    ModelOptions small = options;
    if (GetParam() == "gpt2-small" || GetParam() == "lstm") small.image = 32;
    return MakeModelFamily(GetParam(), small, std::vector<std::int64_t>{1}).value();
  }
};

// From the bound to a memory for all data, for rounds of one sample, for a whole batch, and for the
// sub-batch that the policy chooses.
TEST_P(ModnnNetworks, RunAtAllMemoriesFromTheBoundOn) {
  const GraphFamily family = Family({.optimizer = Optimizer::kMomentum});
  for (const std::int64_t sub_batch : {std::int64_t{1}, std::int64_t{4}, kLargestSubBatch}) {
    const std::int64_t least =
        LeastMemory(GraphAt(family, std::max<std::int64_t>(sub_batch, 1)).value(), 512).bytes;
    const std::int64_t all = AllBytes(GraphAt(family, 4).value(), 512);
    for (const double share : {0.0, 0.1, 0.6, 1.0}) {
      const auto memory =
          least + static_cast<std::int64_t>(
                      share * static_cast<double>(std::max<std::int64_t>(all - least, 0)));
      SCOPED_TRACE(::testing::Message() << sub_batch << " " << memory);
      const absl::StatusOr<MadeSchedule> made =
          MakeSchedule("modnn", family, RoundsRequest(4, sub_batch, memory));
      ASSERT_TRUE(made.ok()) << made.status();
      ASSERT_EQ(CheckMade(*made), absl::OkStatus());
      EXPECT_EQ(made->schedule.memory, ScheduleMemory::kFixed);
    }
    const absl::StatusOr<MadeSchedule> less =
        MakeSchedule("modnn", family, RoundsRequest(4, sub_batch, least - 1));
    EXPECT_EQ(less.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(less.status().message()), HasSubstr(std::to_string(least)));
  }
}

// All data that is copied to the host goes there once for each of its values, and inputs never do.
TEST_P(ModnnNetworks, CopyOutOnlyWhatTheHostLacks) {
  const TaskGraph graph = GraphAt(Family(), 4).value();
  const std::int64_t least = LeastMemory(graph, 512, StayingData::kAtHome).bytes;
  const MadeSchedule made = MakeSchedule("modnn", graph, RequestFor(least * 11 / 10)).value();
  std::vector<bool> has_copy(graph.data.size());
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    has_copy[i] = graph.data[i].before == DataHome::kHost;
  }
  for (const ScheduleStep& step : made.schedule.steps) {
    if (step.kind == StepKind::kOffload) {
      EXPECT_FALSE(has_copy[step.index]) << graph.data[step.index].name;
      has_copy[step.index] = true;
    }
    if (step.kind != StepKind::kRun) continue;
    for (const auto* uses : {&graph.tasks[step.index].writes, &graph.tasks[step.index].updates}) {
      for (const std::size_t data : *uses) has_copy[data] = false;
    }
  }
}

// Where all data fits, only inputs move, and each task has its fastest algorithm.
TEST_P(ModnnNetworks, MoveNothingWhereAllFits) {
  const GraphFamily family = Family();
  const TaskGraph graph = GraphAt(family, 4).value();
  std::int64_t inputs = 0;
  for (const GraphData& data : graph.data) {
    if (data.before == DataHome::kHost) inputs += data.bytes;
  }
  const MadeSchedule made =
      MakeSchedule("modnn", family, RoundsRequest(4, kLargestSubBatch, AllBytes(graph, 512)))
          .value();
  const Timeline timeline = Simulate(made).value();
  EXPECT_EQ(made.sub_batch, 4);
  EXPECT_EQ(timeline.bytes_out, 0);
  EXPECT_EQ(timeline.bytes_in, inputs);
  EXPECT_NEAR(timeline.compute_seconds, TotalsOf(graph).least_seconds,
              1e-9 * timeline.compute_seconds);
}

// Inputs at home on the device have memory from the begin on.
TEST_P(ModnnNetworks, RunWithInputsOnTheDevice) {
  const TaskGraph graph = GraphAt(Family({.inputs = DataHome::kDevice}), 4).value();
  const std::int64_t least = LeastMemory(graph, 512, StayingData::kAtHome).bytes;
  for (const std::int64_t memory : {least, least + least / 4}) {
    ScheduleRequest request;
    request.machine.devices.front().memory_bytes = memory;
    const absl::StatusOr<MadeSchedule> made = MakeSchedule("modnn", graph, request);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(CheckMade(*made), absl::OkStatus());
  }
}

TEST_P(ModnnNetworks, RunOnSeveralDevices) {
  for (const DataHome weights : {DataHome::kDevice, DataHome::kHost}) {
    const GraphFamily family = Family({.weights = weights});
    const std::int64_t least = LeastMemory(GraphAt(family, 2).value(), 512).bytes;
    for (const std::size_t devices : {2, 4}) {
      const absl::StatusOr<MadeSchedule> made =
          MakeSchedule("modnn", family,
                       RoundsRequest(static_cast<std::int64_t>(5 * devices), 2, least, devices));
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ(CheckMade(*made), absl::OkStatus());
      EXPECT_EQ(made->rounds, 3);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ModnnNetworks,
                         ::testing::Values("alexnet", "vgg-16", "resnet-18", "densenet-121",
                                           "inception-v3", "u-net", "gpt2-small", "lstm"),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::erase(text, '-');
                           return text;
                         });

// The bench modnn_figures checks all networks in this way.
TEST(Modnn, ChosenSubBatchesRunAtThirtyMemoriesFromTheBoundToTheIdeal) {
  constexpr std::int64_t kSamples = 8;
  constexpr std::int64_t kMemories = 30;
  const GraphFamily family = MakeModelFamily("alexnet", {}, std::vector<std::int64_t>{1}).value();
  const std::int64_t bound = LeastMemory(GraphAt(family, 1).value(), 512).bytes;
  for (const std::size_t devices : {1, 4}) {
    const std::int64_t part = kSamples / static_cast<std::int64_t>(devices);
    const std::int64_t ideal = sub_batch::MemoryOfTechniques(family, part, 512).value().ideal;
    for (std::int64_t i = 0; i < kMemories; ++i) {
      const std::int64_t memory = bound + (ideal - bound) * i / (kMemories - 1);
      const absl::StatusOr<MadeSchedule> made =
          MakeSchedule("modnn", family, RoundsRequest(kSamples, kLargestSubBatch, memory, devices));
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ(CheckMade(*made), absl::OkStatus()) << memory << " bytes, " << devices;
    }
  }
}

// Weights at home on the host leave in rounds where they have no room beside the tasks.
TEST(Modnn, WeightsOfTheHostLeaveInRoundsAtTheBoundWithoutThem) {
  constexpr std::int64_t kSamples = 8;
  for (const char* network : {"alexnet", "resnet-18"}) {
    const GraphFamily family =
        MakeModelFamily(network, {.optimizer = Optimizer::kMomentum, .weights = DataHome::kHost},
                        std::vector<std::int64_t>{1})
            .value();
    for (const std::int64_t sub_batch : {std::int64_t{1}, std::int64_t{3}, kLargestSubBatch}) {
      const std::int64_t samples = sub_batch == kLargestSubBatch ? 1 : sub_batch;
      const TaskGraph graph = GraphAt(family, samples).value();
      const MemoryBound bound = LeastMemory(graph, 512, StayingData::kNone);
      ASSERT_LT(bound.bytes, LeastMemory(graph, 512).bytes);
      const absl::StatusOr<MadeSchedule> made =
          MakeSchedule("modnn", family, RoundsRequest(kSamples, sub_batch, bound.bytes));
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ(CheckMade(*made), absl::OkStatus()) << network << " in " << sub_batch;
      EXPECT_GE(made->sub_batch, samples);
      const absl::Status refused =
          MakeSchedule("modnn", family, RoundsRequest(kSamples, sub_batch, bound.bytes - 1))
              .status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(std::string(refused.message()), HasSubstr(graph.tasks[bound.task].name));
    }
  }
}

TEST(Modnn, BatchNormalisationInRoundsMayBeRefused) {
  const GraphFamily family = MakeModelFamily("resnet-18", {}, std::vector<std::int64_t>{1}).value();
  ScheduleRequest request = RoundsRequest(4, 2, std::int64_t{1} << 32);
  request.options = ModnnOptions{.ghost_batch_normalization = false};
  const absl::Status refused = MakeSchedule("modnn", family, request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("2 rounds of 2 samples"));
  request.sub_batch = 4;
  EXPECT_TRUE(MakeSchedule("modnn", family, request).ok());
}

// Pages are the same schedule without its addresses.
TEST(Modnn, MakesPagesWhereTheyAreAskedFor) {
  const GraphFamily family = MakeModelFamily("alexnet", {}, std::vector<std::int64_t>{1}).value();
  const std::int64_t least = LeastMemory(GraphAt(family, 2).value(), 512).bytes;
  for (const std::int64_t sub_batch : {2, 4}) {
    ScheduleRequest request = RoundsRequest(4, sub_batch, 2 * least);
    request.memory = ScheduleMemory::kPaged;
    const MadeSchedule made = MakeSchedule("modnn", family, request).value();
    EXPECT_EQ(made.schedule.memory, ScheduleMemory::kPaged);
    EXPECT_EQ(CheckMade(made), absl::OkStatus());
  }
}

}  // namespace
}  // namespace tidepool
