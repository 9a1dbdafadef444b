// SPDX-License-Identifier: Apache-2.0
// Timelines worked out by hand, and every error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/pool_machine.h"
#include "tests/training/schedule/small_schedule.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using namespace testing;  // NOLINT: the words for steps
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Steps = std::vector<ScheduleStep>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// "task 0: 0 to 1", copies as "out" and "in".
std::vector<std::string> EventsOf(const Timeline& timeline) {
  constexpr const char* kKinds[] = {"task", "out", "in"};
  std::vector<std::string> texts;
  for (const TimelineEvent& event : timeline.events) {
    texts.push_back(absl::StrCat(kKinds[static_cast<int>(event.kind)], " ", event.index, ": ",
                                 event.start, " to ", event.end));
  }
  return texts;
}
std::vector<std::string> StallsOf(const Timeline& timeline) {
  std::vector<std::string> texts;
  for (const TimelineStall& stall : timeline.stalls) {
    texts.push_back(absl::StrCat("task ", stall.task, ": ", stall.seconds, " from ", stall.start,
                                 ", ", std::string(StallReasonName(stall.reason)), " ",
                                 stall.data));
  }
  return texts;
}
std::vector<std::string> CurveOf(const std::vector<MemoryPoint>& points) {
  std::vector<std::string> texts;
  texts.reserve(points.size());
  for (const MemoryPoint& point : points) {
    texts.push_back(absl::StrCat(point.seconds, ": ", point.bytes));
  }
  return texts;
}

// A chain: x is given, task i makes data i + 1 of data i, and back tasks need them again. Each
// task takes a second, all data has 1,000 bytes but a has 2,000.
constexpr std::size_t kX = 0;
constexpr std::size_t kA = 1;
constexpr std::size_t kB = 2;
constexpr std::size_t kC = 3;
TaskGraph Chain() {
  TaskGraph graph;
  graph.name = "chain";
  graph.data = {{"x", 1000, DataKind::kInput}, {"a", 2000}, {"b", 1000}, {"c", 1000}};
  const std::vector<TaskAlgorithm> algorithms = {{"plain", 1, 0}, {"quick", 0.5, 1000}};
  graph.tasks = {{.name = "make a", .reads = {kX}, .writes = {kA}, .algorithms = algorithms},
                 {.name = "make b", .reads = {kX}, .writes = {kB}, .algorithms = algorithms},
                 {.name = "make c", .reads = {kA, kB}, .writes = {kC}, .algorithms = algorithms}};
  return graph;
}

// A byte of alignment 1 is a byte; a copy of 1,000 bytes takes a second.
testing::PoolMachine Machine(std::int64_t memory) {
  testing::PoolMachine options;
  options.memory() = memory;
  options.placing.alignment = 1;
  options.SetRate(1000);
  return options;
}

Timeline Simulated(const TaskGraph& graph, const Steps& steps,
                   const testing::PoolMachine& options) {
  absl::StatusOr<Timeline> timeline = Simulate(graph, Of(graph, steps), options);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return timeline.ok() ? *std::move(timeline) : Timeline{};
}

TEST(Simulate, EverythingStays) {
  const TaskGraph graph = SmallGraph();
  testing::PoolMachine options = Machine(10240);
  options.placing.alignment = 512;
  Steps steps = PlainSteps();
  steps[3] = RunTask(kConv, 1);
  const Timeline timeline = Simulated(graph, steps, options);
  EXPECT_THAT(EventsOf(timeline), ElementsAre("task 0: 0 to 0.5", "task 1: 0.5 to 2.5",
                                              "task 2: 2.5 to 6.5", "task 3: 6.5 to 14.5"));
  EXPECT_THAT(StallsOf(timeline), IsEmpty());
  EXPECT_EQ(timeline.seconds, 14.5);
  EXPECT_EQ(timeline.compute_seconds, 14.5);
  EXPECT_THAT(CurveOf(timeline.device_memory),
              ElementsAre("0: 7680", "0.5: 6144", "2.5: 8192", "6.5: 2048", "14.5: 512"));
  EXPECT_THAT(timeline.host_memory, IsEmpty());
  EXPECT_EQ(timeline.peak_device_bytes, 8192);
  EXPECT_EQ(timeline.pool_bytes, 8192);
  EXPECT_EQ(timeline.peak_host_bytes, 0);
  EXPECT_EQ(timeline.bytes_out + timeline.bytes_in + timeline.stayed, 0);
  EXPECT_EQ(timeline.resolved, Of(graph, steps));
}

// a leaves while b is made; b's memory waits for nothing; a comes back while nothing else can run.
Steps OutAndBack() {
  return {Allocate(kX), Allocate(kA), RunTask(0), Offload(kA),  Allocate(kB),
          RunTask(1),   Free(kX),     Drop(kA),   Prefetch(kA), Allocate(kC),
          RunTask(2),   Free(kA),     Free(kB),   Free(kC)};
}

TEST(Simulate, ACopyBeginsBehindTheTaskAndDelaysItsReader) {
  testing::PoolMachine options = Machine(4000);
  Steps steps = OutAndBack();
  const Timeline timeline = Simulated(Chain(), steps, options);
  // The copy back begins when the memory of the copy out is free.
  EXPECT_THAT(EventsOf(timeline), ElementsAre("task 0: 0 to 1", "out 1: 1 to 3", "task 1: 1 to 2",
                                              "in 1: 3 to 5", "task 2: 5 to 6"));
  EXPECT_THAT(StallsOf(timeline), ElementsAre("task 2: 3 from 2, data 1"));
  EXPECT_THAT(CurveOf(timeline.device_memory),
              ElementsAre("0: 3000", "1: 4000", "2: 3000", "5: 4000", "6: 0"));
  EXPECT_THAT(CurveOf(timeline.host_memory), ElementsAre("1: 2000", "5: 0"));
  EXPECT_EQ(timeline.seconds, 6);
  EXPECT_EQ(timeline.compute_seconds, 3);
  EXPECT_EQ(timeline.bytes_out, 2000);
  EXPECT_EQ(timeline.bytes_in, 2000);
  EXPECT_EQ(timeline.peak_host_bytes, 2000);
  EXPECT_EQ(timeline.resolved.steps, steps);
}

// The host keeps its copy of data that came back, so a drop needs no other offload.
TEST(Simulate, DataThatCameBackIsDroppedAgain) {
  Steps steps = OutAndBack();
  const Steps again = {Drop(kA), Prefetch(kA)};
  steps.insert(steps.begin() + 9, again.begin(), again.end());
  const Timeline timeline = Simulated(Chain(), steps, Machine(4000));
  EXPECT_EQ(timeline.bytes_out, 2000);
  EXPECT_EQ(timeline.bytes_in, 4000);
  EXPECT_EQ(timeline.resolved.steps, steps);
}

// c needs a's memory: a is dropped there, and the task waits until a has left at 3.
TEST(Simulate, NoRoomWaitsForWhatLeavesFirst) {
  TaskGraph graph = Chain();
  graph.tasks[2].reads = {kB};
  graph.tasks.push_back(
      {.name = "look", .reads = {kA}, .updates = {kC}, .algorithms = graph.tasks[0].algorithms});
  const Steps steps = {Allocate(kX), Allocate(kA), RunTask(0), Offload(kA), Allocate(kB),
                       RunTask(1),   Allocate(kC), RunTask(2), Free(kX),    Free(kB),
                       Drop(kA),     Prefetch(kA), RunTask(3), Free(kA),    Free(kC)};
  const Timeline timeline = Simulated(graph, steps, Machine(4999));
  EXPECT_THAT(EventsOf(timeline), ElementsAre("task 0: 0 to 1", "out 1: 1 to 3", "task 1: 1 to 2",
                                              "task 2: 3 to 4", "in 1: 4 to 6", "task 3: 6 to 7"));
  EXPECT_THAT(StallsOf(timeline),
              ElementsAre("task 2: 1 from 2, memory 1", "task 3: 2 from 4, data 1"));
  Steps resolved = steps;
  resolved.erase(resolved.begin() + 10);
  resolved.insert(resolved.begin() + 6, Drop(kA));
  EXPECT_EQ(timeline.resolved.steps, resolved);
  EXPECT_EQ(timeline.resolved.policy, "example");
  EXPECT_EQ(timeline.resolved.fingerprint, GraphFingerprint(graph));
  // An explicit drop at the same place is the same.
  EXPECT_THAT(StallsOf(Simulated(graph, resolved, Machine(4000))),
              ElementsAre("task 2: 1 from 2, memory 1", "task 3: 2 from 4, data 1"));
}

// Data that needs 2,000 bytes in one piece has no room beside b, which was placed meanwhile, unless
// x is dropped as soon as it was sent.
TEST(Simulate, DataIsDroppedEarlierWhereThePoolIsInPieces) {
  TaskGraph graph;
  graph.name = "pieces";
  graph.data = {{"x", 1000, DataKind::kInput}, {"a", 1000}, {"b", 1000}, {"c", 2000}};
  const std::vector<TaskAlgorithm> algorithms = {{"plain", 1, 0}};
  graph.tasks = {{.name = "make a", .reads = {0}, .writes = {1}, .algorithms = algorithms},
                 {.name = "make b", .reads = {1}, .writes = {2}, .algorithms = algorithms},
                 {.name = "make c", .reads = {2}, .writes = {3}, .algorithms = algorithms},
                 {.name = "look", .reads = {0}, .updates = {3}, .algorithms = algorithms}};
  const Steps steps = {Allocate(0), Allocate(1), RunTask(0),  Offload(0), Allocate(2),
                       RunTask(1),  Free(1),     Allocate(3), RunTask(2), Free(2),
                       Drop(0),     Prefetch(0), RunTask(3),  Free(0),    Free(3)};
  testing::PoolMachine options = Machine(3000);
  options.placing.placement = "first-fit";
  // Dropped where c has no room, x leaves [0, 2000) free beside b at 2,000.
  const PlacedSchedule late =
      PlaceInPool(graph, Of(graph, steps), options.machine, options.placing).value();
  Steps resolved = steps;
  resolved.erase(resolved.begin() + 10);
  resolved.insert(resolved.begin() + 7, Drop(0));
  EXPECT_EQ(late.resolved.steps, resolved);
  // With a in its place until the end, c fits only where b took the place of x.
  Steps kept = steps;
  kept.erase(kept.begin() + 6);
  kept.insert(kept.end(), Free(1));
  options.memory() = 4000;
  const PlacedSchedule early =
      PlaceInPool(graph, Of(graph, kept), options.machine, options.placing).value();
  resolved = kept;
  resolved.erase(resolved.begin() + 9);
  resolved.insert(resolved.begin() + 4, Drop(0));
  EXPECT_EQ(early.resolved.steps, resolved);
  EXPECT_EQ(early.schedule.memory, ScheduleMemory::kFixed);
}

TEST(Simulate, SynchronizeWaitsForCopies) {
  Steps steps = OutAndBack();
  std::rotate(steps.begin() + 4, steps.begin() + 7, steps.begin() + 8);  // the drop
  steps.insert(steps.begin() + 4, Synchronize());
  const Timeline timeline = Simulated(Chain(), steps, Machine(4000));
  EXPECT_THAT(EventsOf(timeline), ElementsAre("task 0: 0 to 1", "out 1: 1 to 3", "task 1: 3 to 4",
                                              "in 1: 3 to 5", "task 2: 5 to 6"));
  EXPECT_THAT(StallsOf(timeline),
              ElementsAre("task 1: 2 from 1, synchronize 1", "task 2: 1 from 4, data 1"));
}

TEST(Simulate, FreedDataHoldsBackWhatComesNextUntilItsCopyIsOver) {
  TaskGraph graph = Chain();
  graph.tasks[2].reads = {kB};
  const Steps steps = {Allocate(kX), Allocate(kA), RunTask(0), Offload(kA),
                       Free(kA),     Allocate(kB), RunTask(1), Free(kX),
                       Allocate(kC), RunTask(2),   Free(kB),   Free(kC)};
  // b lies where a was.
  const Timeline timeline = Simulated(graph, steps, Machine(3000));
  EXPECT_THAT(EventsOf(timeline),
              ElementsAre("task 0: 0 to 1", "out 1: 1 to 3", "task 1: 3 to 4", "task 2: 4 to 5"));
  EXPECT_THAT(StallsOf(timeline), ElementsAre("task 1: 2 from 1, memory 1"));
  EXPECT_THAT(CurveOf(timeline.device_memory), ElementsAre("0: 3000", "3: 2000", "5: 0"));
  EXPECT_THAT(CurveOf(timeline.host_memory), ElementsAre("1: 2000", "3: 0"));
}

TEST(Simulate, FreedDataThatIsOutLeavesTheHost) {
  TaskGraph graph = Chain();
  graph.tasks[2].reads = {kB};
  const Steps steps = {Allocate(kX), Allocate(kA), RunTask(0), Offload(kA), Drop(kA),
                       Free(kA),     Allocate(kB), RunTask(1), Free(kX),    Allocate(kC),
                       RunTask(2),   Free(kB),     Free(kC)};
  const Timeline timeline = Simulated(graph, steps, Machine(3000));
  EXPECT_THAT(CurveOf(timeline.host_memory), ElementsAre("1: 2000", "3: 0"));
  EXPECT_EQ(timeline.seconds, 5);
}

TEST(Simulate, OneTransferAtATime) {
  TaskGraph graph = Chain();
  // x out and back, and a out meanwhile.
  const Steps steps = {Allocate(kX), Allocate(kA), RunTask(0), Offload(kX), Drop(kX), Offload(kA),
                       Prefetch(kX), Allocate(kB), RunTask(1), Drop(kA),    Free(kX), Prefetch(kA),
                       Allocate(kC), RunTask(2),   Free(kA),   Free(kB),    Free(kC)};
  testing::PoolMachine options = Machine(10'000);
  options.link().latency_seconds = 0.5;
  EXPECT_THAT(EventsOf(Simulated(graph, steps, options)),
              ElementsAre("task 0: 0 to 1", "out 0: 0 to 1.5", "out 1: 1.5 to 4", "in 0: 1.5 to 3",
                          "task 1: 3 to 4", "in 1: 4 to 6.5", "task 2: 6.5 to 7.5"));
  options.link().full_duplex = false;
  EXPECT_THAT(EventsOf(Simulated(graph, steps, options)),
              ElementsAre("task 0: 0 to 1", "out 0: 0 to 1.5", "out 1: 1.5 to 4", "in 0: 4 to 5.5",
                          "task 1: 5.5 to 6.5", "in 1: 6.5 to 9", "task 2: 9 to 10"));
}

TEST(Simulate, CompressedDataTakesLessOfTheHostAndItsOwnTime) {
  Steps steps = OutAndBack();
  steps[3] = Offload(kA, 0.5);
  TaskGraph graph = Chain();
  graph.data[kA].bytes = 1 << 20;
  testing::PoolMachine options = Machine(4 << 20);
  options.link().out_bytes_per_second = 1e6;
  options.link().in_bytes_per_second = 1e9;
  options.placing.compression.slot_ns = 3'000'000;
  for (const int threads : {0, 1}) {
    options.placing.compression_threads = threads;
    const Timeline timeline = Simulated(graph, steps, options);
    const int used = threads == 0 ? options.placing.compression.threads : 1;
    const auto seconds = [&](TransferDirection direction, double link) {
      return TransferSeconds(options.placing.compression, 1 << 20, ZeroValueWord::k32Bits, 0.5,
                             direction, link, used);
    };
    ASSERT_EQ(timeline.events.size(), 5);
    EXPECT_DOUBLE_EQ(timeline.events[1].end - timeline.events[1].start,
                     seconds(TransferDirection::kOffload, 1e6));
    EXPECT_NEAR(timeline.events[3].end - timeline.events[3].start,
                seconds(TransferDirection::kPrefetch, 1e9), 1e-12);
    EXPECT_EQ(timeline.peak_host_bytes,
              CompressedBytes(options.placing.compression, 1 << 20, ZeroValueWord::k32Bits, 0.5));
    EXPECT_EQ(timeline.bytes_out, 1 << 20);
  }
}

TEST(Simulate, WithoutRoomOnTheHostItStays) {
  Steps steps = OutAndBack();
  testing::PoolMachine options = Machine(5000);
  options.host_memory() = 1999;
  const Timeline timeline = Simulated(Chain(), steps, options);
  EXPECT_THAT(EventsOf(timeline),
              ElementsAre("task 0: 0 to 1", "task 1: 1 to 2", "task 2: 2 to 3"));
  EXPECT_EQ(timeline.stayed, 1);
  EXPECT_EQ(timeline.bytes_out, 0);
  EXPECT_THAT(timeline.host_memory, IsEmpty());
  steps.erase(steps.begin() + 7, steps.begin() + 9);
  steps.erase(steps.begin() + 3);
  EXPECT_EQ(timeline.resolved.steps, steps);
  options.host_memory() = 2000;
  EXPECT_EQ(Simulated(Chain(), OutAndBack(), options).stayed, 0);
  options.host_memory() = 0;
  EXPECT_EQ(Simulated(Chain(), OutAndBack(), options).stayed, 1);
}

TEST(Simulate, AnInfiniteLinkTakesNoTime) {
  Steps steps = OutAndBack();
  std::rotate(steps.begin() + 4, steps.begin() + 7, steps.begin() + 8);  // the drop
  testing::PoolMachine options = Machine(4000);
  options.SetRate(kInfinity);
  const Timeline timeline = Simulated(Chain(), steps, options);
  EXPECT_THAT(EventsOf(timeline), ElementsAre("task 0: 0 to 1", "out 1: 1 to 1", "task 1: 1 to 2",
                                              "in 1: 1 to 1", "task 2: 2 to 3"));
  EXPECT_THAT(timeline.stalls, IsEmpty());
  EXPECT_EQ(timeline.peak_device_bytes, 4000);
}

// Requests get their planned offsets.
TEST(Simulate, FollowsAPlan) {
  const TaskGraph graph = Chain();
  const Steps steps = OutAndBack();
  testing::PoolMachine options = Machine(9000);
  options.placing.placement = "planned";
  EXPECT_EQ(Simulated(graph, steps, options).pool_bytes, 4000);
  options.placing.plan = std::make_shared<const PlacementPlan>(
      std::vector<PlannedRequest>{{.bytes = 1000, .offset = 7000},
                                  {.bytes = 2000, .offset = 1000},
                                  {.bytes = 1000, .offset = 0},
                                  {.bytes = 2000, .offset = 1000},
                                  {.bytes = 1000, .offset = 7000}});
  EXPECT_EQ(Simulated(graph, steps, options).pool_bytes, 8000);
  // Another placement refuses a plan.
  options.placing.placement = "best-fit";
  EXPECT_EQ(Simulate(graph, Of(graph, steps), options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Simulate, APlanOfOtherRequestsIsNone) {
  const TaskGraph graph = Chain();
  testing::PoolMachine options = Machine(9000);
  options.placing.placement = "planned";
  const auto message = [&](std::vector<PlannedRequest> requests) {
    options.placing.plan = std::make_shared<const PlacementPlan>(std::move(requests));
    return std::string(Simulate(graph, Of(graph, OutAndBack()), options).status().message());
  };
  EXPECT_EQ(message({{.bytes = 1000, .offset = 0}, {.bytes = 3000, .offset = 1000}}),
            "step 1, request 1 is for 2000 bytes, expected 3000 as planned");
  EXPECT_THAT(message({{.bytes = 1000, .offset = 0}}),
              HasSubstr("expected no more than 1 requests as planned"));
}

TEST(Simulate, IsTheSameEachTime) {
  const TaskGraph graph = *MakeModel("alexnet", {.batch = 8, .inputs = DataHome::kDevice});
  Steps steps;
  std::vector<std::size_t> uses(graph.data.size());
  for (const GraphTask& task : graph.tasks) {
    for (const auto* list : {&task.reads, &task.updates}) {
      for (const std::size_t data : *list) ++uses[data];
    }
  }
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    if (ExistsBefore(graph.data[i])) steps.push_back(Allocate(i));
  }
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : graph.tasks[i].writes) {
      if (!ExistsBefore(graph.data[data])) steps.push_back(Allocate(data));
    }
    steps.push_back(RunTask(i));
    for (const auto* list : {&graph.tasks[i].reads, &graph.tasks[i].updates}) {
      for (const std::size_t data : *list) {
        if (--uses[data] > 0 || ExistsAfter(graph.data[data])) continue;
        steps.push_back(Free(data));
      }
    }
  }
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    bool is_result = !ExistsAfter(graph.data[i]);
    for (const ScheduleStep& step : steps) is_result &= step != Free(i);
    if (is_result) steps.push_back(Free(i));
  }
  testing::PoolMachine options = Machine(std::int64_t{4} << 30);
  options.placing.alignment = 512;
  const Timeline once = Simulated(graph, steps, options);
  const Timeline twice = Simulated(graph, steps, options);
  EXPECT_EQ(EventsOf(once), EventsOf(twice));
  EXPECT_EQ(CurveOf(once.device_memory), CurveOf(twice.device_memory));
  EXPECT_EQ(once.resolved, twice.resolved);
  EXPECT_EQ(once.pool_bytes, twice.pool_bytes);
  EXPECT_GT(once.pool_bytes, 0);
}

TEST(Simulate, HugeDataIsCounted) {
  TaskGraph graph = Chain();
  for (GraphData& data : graph.data) data.bytes = kMostDataBytes;
  testing::PoolMachine options = Machine(0);
  options.placing.alignment = 512;
  options.memory() = ((std::int64_t{1} << 44) - 1) << 9;  // the most there is
  options.link().out_bytes_per_second = 1;
  options.link().in_bytes_per_second = kInfinity;
  const Timeline timeline = Simulated(graph, OutAndBack(), options);
  EXPECT_EQ(timeline.peak_device_bytes, 3 * kMostDataBytes);
  EXPECT_EQ(timeline.seconds, 0x1p50 + 2);
  // At an alignment of a byte, an arena ends at 16 TiB, below the data.
  options = Machine((std::int64_t{1} << 44) - 1);
  const absl::StatusOr<Timeline> none = Simulate(graph, Of(graph, OutAndBack()), options);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
}

std::string RefusalOf(const Steps& steps, std::int64_t memory) {
  const absl::StatusOr<Timeline> timeline = Simulate(Chain(), Of(Chain(), steps), Machine(memory));
  EXPECT_EQ(timeline.status().code(), absl::StatusCode::kResourceExhausted);
  return std::string(timeline.status().message());
}

TEST(Simulate, SaysWhatHoldsTheMemory) {
  EXPECT_EQ(RefusalOf(OutAndBack(), 0),
            "at task 'make a', step 0, 1000 bytes more are needed for data 'x'; the largest free "
            "block has 0 bytes of 0 bytes; 0 data hold 0 bytes");
  EXPECT_EQ(RefusalOf(OutAndBack(), 2999),
            "at task 'make a', step 1, 2.0 KiB (2000 bytes) more are needed for data 'a'; the "
            "largest free block has 2.0 KiB of 2.9 KiB; 1 data hold 1000 bytes: 'x' 1000 bytes");
  Steps steps = OutAndBack();
  EXPECT_EQ(RefusalOf(steps, 3999),
            "at task 'make c', step 8, 2.0 KiB (2000 bytes) more are needed for data 'a'; the "
            "largest free block has 2.0 KiB of 3.9 KiB; 1 data hold 1000 bytes: 'b' 1000 bytes");
  steps[10] = RunTask(2, 1);
  EXPECT_THAT(RefusalOf(steps, 4000),
              StartsWith("at task 'make c', step 10, 1000 bytes more are needed for its workspace; "
                         "the largest free block has 0 bytes of 3.9 KiB"));
}

TEST(Simulate, NamesTheLargestThreeHolders) {
  TaskGraph graph;
  for (int i = 0; i < 7; ++i) {
    graph.data.push_back({absl::StrCat("w", i), 100 + i, DataKind::kWeight});
  }
  graph.tasks = {{.name = "t", .updates = {0}, .algorithms = {{"a", 1, 1}}}};
  Steps steps;
  for (std::size_t i = 0; i < 7; ++i) steps.push_back(Allocate(i));
  steps.push_back(RunTask(0));
  EXPECT_THAT(
      std::string(Simulate(graph, Of(graph, steps), Machine(721)).status().message()),
      EndsWith("7 data hold 721 bytes: 'w6' 106 bytes, 'w5' 105 bytes, 'w4' 104 bytes, ..."));
  steps = {Allocate(0), RunTask(0)};
  for (std::size_t i = 1; i < 7; ++i) steps.push_back(Allocate(i));
  EXPECT_THAT(std::string(Simulate(graph, Of(graph, steps), Machine(300)).status().message()),
              StartsWith("after the last task, step 3, 102 bytes more are needed for data 'w2'"));
}

absl::Status ErrorOf(const testing::PoolMachine& options) {
  const TaskGraph graph = Chain();
  return Simulate(graph, Of(graph, OutAndBack()), options).status();
}

TEST(Simulate, RefusesOptionsOutOfRange) {
  std::vector<testing::PoolMachine> wrong;
  const auto add = [&]() -> testing::PoolMachine& { return wrong.emplace_back(Machine(5000)); };
  add().memory() = -1;
  add().memory() = std::int64_t{1} << 44;  // at an alignment of 1
  add().memory() = INT64_MAX;
  for (const std::int64_t alignment :
       {std::int64_t{0}, std::int64_t{-512}, std::int64_t{3}, std::int64_t{1} << 31, INT64_MIN}) {
    add().placing.alignment = alignment;
  }
  for (const double link : {0.0, -1.0, 0.999, kNan, -kInfinity}) {
    add().link().out_bytes_per_second = link;
    add().link().in_bytes_per_second = link;
  }
  for (const double latency : {-1e-9, kNan, kInfinity, 2e9}) {
    add().link().latency_seconds = latency;
  }
  add().host_memory() = -1;
  add().placing.compression_threads = -1;
  for (const testing::PoolMachine& options : wrong) {
    const absl::Status status = ErrorOf(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
  }
  testing::PoolMachine options = Machine(5000);
  options.placing.compression.speedups.clear();
  EXPECT_EQ(ErrorOf(options).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Simulate, RefusesUnknownPlacements) {
  testing::PoolMachine options = Machine(5000);
  options.placing.placement = "worst-fit";
  EXPECT_EQ(ErrorOf(options).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ErrorOf(options).message()), HasSubstr("best-fit"));
}

TEST(Simulate, RefusesSchedulesThatAreNone) {
  const TaskGraph graph = Chain();
  Schedule schedule = Of(graph, OutAndBack());
  schedule.fingerprint += 1;
  EXPECT_EQ(Simulate(graph, schedule, Machine(5000)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Simulate(graph, Of(graph, {}), Machine(5000)).status(),
            ValidateSchedule(graph, Of(graph, {})));
}

TEST(Simulate, ReasonsHaveNames) {
  EXPECT_EQ(StallReasonName(TimelineStall::Reason::kData), "data");
  EXPECT_EQ(StallReasonName(TimelineStall::Reason::kMemory), "memory");
  EXPECT_EQ(StallReasonName(TimelineStall::Reason::kSynchronize), "synchronize");
}

}  // namespace
}  // namespace tidepool
