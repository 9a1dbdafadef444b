// SPDX-License-Identifier: Apache-2.0
// The front of time against memory: valid schedules, none of which another one beats, and none
// slower than moDNN's.
#include "tidepool/training/memory_front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stop_token>
#include <string>
#include <vector>

#include "tests/support/expect_valid.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/sub_batch.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

GraphFamily FrontFamily(const std::string& name) {
  return MakeModelFamily(name, {.image = 128, .gpu = "k40"}, std::vector<std::int64_t>{1}).value();
}

ScheduleRequest FrontRequest(std::int64_t batch, std::int64_t sub_batch = kLargestSubBatch) {
  return {.batch = batch, .sub_batch = sub_batch};
}

// The search ends by its work, so that no clock changes the answer.
FrontOptions LittleWork(int memories) {
  return {.memories = memories, .best = {.time_limit_seconds = 1000, .work_seconds = 0.2}};
}

void ExpectFront(const MemoryFront& front) {
  ASSERT_FALSE(front.points.empty());
  const FrontPoint* last = nullptr;
  for (const FrontPoint& point : front.points) {
    ExpectValid(point.made);
    EXPECT_DOUBLE_EQ(Simulate(point.made)->seconds, point.seconds);
    EXPECT_GE(point.seconds, point.made.lower_bound_seconds * (1 - 1e-9));
    for (const MachineDevice& device : point.made.machine.devices) {
      EXPECT_EQ(device.memory_bytes, point.memory_bytes);
    }
    if (last != nullptr) {
      EXPECT_GT(point.memory_bytes, last->memory_bytes);
      EXPECT_LT(point.seconds, last->seconds);
    }
    last = &point;
  }
}

double SecondsWithin(const MemoryFront& front, std::int64_t memory) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const FrontPoint& point : front.points) {
    if (point.memory_bytes <= memory) seconds = point.seconds;
  }
  return seconds;
}

TEST(MemoryFrontTest, NoMemoryIsSlowerThanModnnOrFasterThanItsBound) {
  for (const char* name : {"alexnet", "resnet-18"}) {
    const GraphFamily family = FrontFamily(name);
    const std::int64_t bound =
        LeastMemory(GraphAt(family, 1).value(), FrontRequest(16).placing.alignment).bytes;
    FrontOptions options = LittleWork(0);
    options.memories = 1;
    for (const int factor : {100, 103, 120, 200}) {
      options.memory_bytes.push_back(bound / 100 * factor + bound % 100);
    }
    const absl::StatusOr<MemoryFront> front = MakeFront(family, FrontRequest(16), options);
    ASSERT_TRUE(front.ok()) << front.status();
    ExpectFront(*front);
    ASSERT_EQ(front->memories.size(), options.memory_bytes.size());
    for (const FrontMemory& memory : front->memories) {
      ScheduleRequest request = FrontRequest(16);
      request.machine.devices.front().memory_bytes = memory.memory_bytes;
      const absl::StatusOr<MadeSchedule> modnn = MakeSchedule("modnn", family, request);
      ASSERT_TRUE(modnn.ok()) << modnn.status();
      const double seconds = SecondsWithin(*front, memory.memory_bytes);
      EXPECT_LE(seconds, Simulate(*modnn)->seconds * (1 + 1e-9)) << name;
      EXPECT_GE(seconds, memory.lower_bound_seconds * (1 - 1e-9)) << name;
    }
    EXPECT_FALSE(front->stopped);
  }
}

TEST(MemoryFrontTest, GoesFromTheBoundToAllDataInMemoryAndIsTheSameAgain) {
  const GraphFamily family = FrontFamily("resnet-18");
  const FrontOptions options = LittleWork(6);
  const absl::StatusOr<MemoryFront> front = MakeFront(family, FrontRequest(16), options);
  ASSERT_TRUE(front.ok()) << front.status();
  ExpectFront(*front);
  EXPECT_EQ(front->memories.size(), 6);
  EXPECT_EQ(front->points.front().made.sub_batch, 1);
  EXPECT_EQ(front->points.front().made.rounds, 16);
  EXPECT_LT(front->points.back().seconds, front->ideal_seconds * 1.05);
  EXPECT_GT(front->points.back().workspace_bytes, front->points.front().workspace_bytes);
  const absl::StatusOr<MemoryFront> again = MakeFront(family, FrontRequest(16), options);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->points.size(), front->points.size());
  for (std::size_t i = 0; i < front->points.size(); ++i) {
    EXPECT_EQ(again->points[i].made.schedule, front->points[i].made.schedule);
  }
}

TEST(MemoryFrontTest, RefusedGhostNormalizationLeavesTheWholeBatch) {
  FrontOptions options = LittleWork(3);
  options.modnn.ghost_batch_normalization = false;
  const MemoryFront front = MakeFront(FrontFamily("resnet-18"), FrontRequest(16), options).value();
  ExpectFront(front);
  for (const FrontPoint& point : front.points) EXPECT_EQ(point.made.rounds, 1);
}

TEST(MemoryFrontTest, AGraphHasItsBatchAndTasksMayRunAgain) {
  const TaskGraph graph = GraphAt(FrontFamily("resnet-18"), 8).value();
  ScheduleRequest request;
  request.machine.links.front() = {.out_bytes_per_second = 1e8, .in_bytes_per_second = 1e8};
  FrontOptions options = LittleWork(4);
  const MemoryFront front = MakeFront(graph, request, options).value();
  ExpectFront(front);
  const auto runs_again = [](const FrontPoint& point) { return point.recomputed_tasks > 0; };
  EXPECT_TRUE(std::any_of(front.points.begin(), front.points.end(), runs_again));
  options.best.recomputes = false;
  const MemoryFront without = MakeFront(graph, request, options).value();
  ExpectFront(without);
  EXPECT_TRUE(std::none_of(without.points.begin(), without.points.end(), runs_again));
}

// Graphs of programs do not know their batch.
TEST(MemoryFrontTest, ABatchThatIsNotKnownIsOneRound) {
  TaskGraph graph = GraphAt(FrontFamily("resnet-18"), 8).value();
  graph.batch = 0;
  const MemoryFront front = MakeFront(graph, ScheduleRequest(), LittleWork(3)).value();
  ExpectFront(front);
  EXPECT_GT(front.points.size(), 1);
  for (const FrontPoint& point : front.points) EXPECT_EQ(point.made.rounds, 1);
}

TEST(MemoryFrontTest, SeveralDevicesDivideTheBatchAndTheirMemoryIsOne) {
  ScheduleRequest request = FrontRequest(16);
  request.devices = 2;
  request.machine.devices.assign(2, {});
  request.machine.host.cores = 2;
  const MemoryFront front = MakeFront(FrontFamily("alexnet"), request, LittleWork(3)).value();
  ExpectFront(front);
  EXPECT_EQ(front.points.back().made.schedule.devices, 2);
}

TEST(MemoryFrontTest, TheMemoryOfTheMachineIsTheMost) {
  ScheduleRequest request = FrontRequest(16);
  const GraphFamily family = FrontFamily("alexnet");
  const MemoryFront all = MakeFront(family, request, LittleWork(4)).value();
  const std::int64_t middle =
      (all.points.front().memory_bytes + all.points.back().memory_bytes) / 2;
  request.machine.devices.front().memory_bytes = middle;
  const MemoryFront front = MakeFront(family, request, LittleWork(4)).value();
  EXPECT_LE(front.points.back().memory_bytes, middle);
  request.machine.devices.front().memory_bytes = all.points.front().memory_bytes / 2;
  const absl::Status none = MakeFront(family, request, LittleWork(4)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("sub-batches of 1 need"));
}

TEST(MemoryFrontTest, RefusesWhatItDoesNotTake) {
  const GraphFamily family = FrontFamily("alexnet");
  const auto message = [&](const ScheduleRequest& request, const FrontOptions& options) {
    const absl::Status status = MakeFront(family, request, options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  ScheduleRequest request = FrontRequest(16);
  request.memory = ScheduleMemory::kPaged;
  EXPECT_THAT(message(request, {}), HasSubstr("paged, expected fixed addresses"));
  request = FrontRequest(16);
  request.options = BestOptions();
  EXPECT_THAT(message(request, {}), HasSubstr("options of a policy"));
  EXPECT_THAT(message(FrontRequest(16), {.memories = 0}), HasSubstr("expected 1 or more"));
  EXPECT_THAT(message(FrontRequest(16), {.memory_bytes = {-1}}), HasSubstr("a memory of -1"));
  EXPECT_THAT(message(FrontRequest(0), {}), HasSubstr("a batch of 0"));
}

TEST(MemoryFrontTest, AStopBeforeTheFirstScheduleCancels) {
  std::stop_source stop;
  stop.request_stop();
  FrontOptions options = LittleWork(3);
  options.best.stop = stop.get_token();
  EXPECT_TRUE(
      absl::IsCancelled(MakeFront(FrontFamily("alexnet"), FrontRequest(16), options).status()));
}

TEST(MemoryFrontTest, TheTimeLimitLeavesAFrontThatSaysSo) {
  const MemoryFront front =
      MakeFront(FrontFamily("resnet-18"), FrontRequest(16), {.best = {.time_limit_seconds = 1e-6}})
          .value();
  ExpectFront(front);
  EXPECT_TRUE(front.stopped);
}

// `best` sends weights too, so it fits where moDNN's do not.
TEST(MemoryFrontTest, BeginsWhereBestDoes) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 32}).value();
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = std::int64_t{510} << 20;
  const MemoryFront front = MakeFront(graph, request, LittleWork(4)).value();
  ExpectFront(front);
  EXPECT_LT(front.points.front().memory_bytes, std::int64_t{480} << 20);
  for (const FrontMemory& memory : front.memories) {
    request.machine.devices.front().memory_bytes = memory.memory_bytes;
    request.options = BestOptions{.time_limit_seconds = 1000, .work_seconds = 0.2 / 16};
    const absl::StatusOr<MadeSchedule> best = MakeSchedule("best", graph, request);
    ASSERT_TRUE(best.ok()) << best.status();
    const double seconds = SecondsWithin(front, memory.memory_bytes);
    EXPECT_LE(seconds, Simulate(*best)->seconds * (1 + 1e-9));
    EXPECT_GE(seconds, memory.lower_bound_seconds * (1 - 1e-9));
  }
}

// `best` in each memory, with the work that a front has for one.
TEST(MemoryFrontTest, IsHardlySlowerThanBestWithItsShareOfTheWork) {
  const TaskGraph graph = MakeModel("resnet-18", {.batch = 16, .image = 128}).value();
  constexpr int kMemories = 6;
  FrontOptions options = LittleWork(kMemories);
  options.best.work_seconds = 1.5;
  const MemoryFront front = MakeFront(graph, ScheduleRequest(), options).value();
  ExpectFront(front);
  ScheduleRequest request;
  request.options = BestOptions{.time_limit_seconds = 1000,
                                .work_seconds = options.best.work_seconds / kMemories};
  for (const FrontMemory& memory : front.memories) {
    request.machine.devices.front().memory_bytes = memory.memory_bytes;
    const absl::StatusOr<MadeSchedule> best = MakeSchedule("best", graph, request);
    if (!best.ok()) continue;
    EXPECT_LE(SecondsWithin(front, memory.memory_bytes), Simulate(*best)->seconds * 1.03)
        << memory.memory_bytes;
  }
}

// moDNN's schedules often need a little less than the memory that is tried.
TEST(MemoryFrontTest, SearchesInTheMemoryOfAPointJustBelow) {
  const TaskGraph graph = MakeModel("alexnet", {.batch = 32}).value();
  FrontOptions options = LittleWork(0);
  options.memories = 1;
  options.memory_bytes = {LeastMemory(graph, ScheduleRequest().placing.alignment).bytes + 4096};
  const MemoryFront front = MakeFront(graph, ScheduleRequest(), options).value();
  ExpectFront(front);
  for (const FrontPoint& point : front.points) EXPECT_EQ(point.made.schedule.policy, "best");
}

// Between the last memory without a schedule and the first with one.
TEST(MemoryFrontTest, NarrowsTheLeastMemory) {
  const TaskGraph graph = MakeModel("resnet-50", {.batch = 32}).value();
  FrontOptions options = LittleWork(3);
  options.best.work_seconds = 1;
  const MemoryFront front = MakeFront(graph, ScheduleRequest(), options).value();
  ExpectFront(front);
  EXPECT_GT(front.points.front().memory_bytes, front.memories.front().memory_bytes);
  EXPECT_LT(static_cast<double>(front.points.front().memory_bytes),
            static_cast<double>(front.memories.front().memory_bytes) * 1.1);
}

// Sizes that are no multiples of a granule.
TEST(MemoryFrontTest, ASmallGraphFitsInItsOwnMemory) {
  TaskGraph graph;
  graph.name = "layer";
  graph.data = {{"weight", 1000, DataKind::kWeight}, {"output", 700, DataKind::kActivation}};
  graph.data[0].before = graph.data[0].after = DataHome::kDevice;
  graph.tasks = {{.name = "layer", .reads = {0}, .writes = {1}, .algorithms = {{"only", 1, 0}}}};
  ASSERT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
  const absl::StatusOr<MemoryFront> front = MakeFront(graph, ScheduleRequest(), LittleWork(3));
  ASSERT_TRUE(front.ok()) << front.status();
  ASSERT_EQ(front->points.size(), 1);
  EXPECT_EQ(front->points.front().memory_bytes, 2048);
  ScheduleRequest request;
  request.machine.devices.front().memory_bytes = 1024;
  EXPECT_THAT(std::string(MakeFront(graph, request, LittleWork(3)).status().message()),
              HasSubstr("it needs 2.0 KiB (2048 bytes) or more"));
}

// moDNN's schedules, with which a front begins, would send activations.
TEST(MemoryFrontTest, SendsNothingWhereNothingMayLeave) {
  const TaskGraph graph =
      MakeModel("gpt2-small", {.batch = 8, .image = 256, .fused_attention = false}).value();
  FrontOptions options = LittleWork(2);
  options.best.offloads = false;
  const MemoryFront front = MakeFront(graph, FrontRequest(0), options).value();
  ExpectFront(front);
  EXPECT_GT(front.points.front().recomputed_tasks, 0);
  for (const FrontPoint& point : front.points) EXPECT_EQ(point.bytes_out, 0);
}

}  // namespace
}  // namespace tidepool
