// SPDX-License-Identifier: Apache-2.0
// The executor with schedules of a pool and real data on the host device: tasks read the same bytes
// as in a plain run in memory, also of data that the host compressed on its way.
#include "tidepool/training/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/rounds.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/execute/placed_rig.h"
#include "tests/training/schedule/random_schedule.h"
#include "tests/training/schedule/small_schedule.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OffloadEverything;
using testing::PlacedRig;
using testing::PlacedRigOptions;
using testing::RandomGraphs;
using testing::RandomSchedules;
using testing::SmallRandomGraph;

Schedule RandomSchedule(const TaskGraph& graph, RandomGraphs& random) {
  Schedule schedule = RandomSchedules(graph, random).Valid();
  schedule.fingerprint = GraphFingerprint(graph);
  return schedule;
}
std::int64_t CompressedCopies(const Schedule& schedule) {
  return std::count_if(schedule.steps.begin(), schedule.steps.end(),
                       [](const ScheduleStep& step) { return step.density >= 0; });
}

// A pool may bring weights back to other places than theirs, which an executor refuses: its next
// iteration would not find them.
bool MovesWeights(const absl::Status& status) { return absl::IsInvalidArgument(status); }

TEST(ExecutorTest, TasksReadTheRightBytes) {
  int served = 0;
  std::int64_t compressed = 0;
  const int rounds = testing::Rounds(120);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraphs random(static_cast<std::uint64_t>(seed));
    const TaskGraph graph = SmallRandomGraph(random, 2 + random.Below(20));
    const Schedule schedule = random.Chance(0.5)
                                  ? RandomSchedule(graph, random)
                                  : OffloadEverything(graph, {.drops_early = random.Chance(0.5),
                                                              .density = 0.5,
                                                              .moves_weights = random.Chance(0.3)})
                                        .Make();
    PlacedRigOptions options;
    options.compresses = random.Chance(0.6);
    options.memory_bytes = std::int64_t{1} << (15 + random.Below(4));
    if (random.Chance(0.3)) options.host_bytes = 64 << 10;
    options.one_transfer_at_a_time = random.Chance(0.2);
    if (random.Chance(0.5)) {
      options.device.copy_bytes_per_second = 1e8;
      options.device.copy_latency_ns = 20'000;
    }
    PlacedRig rig(graph, options);
    const absl::Status status = rig.Create(schedule, {.measures = random.Chance(0.3)});
    if (absl::IsResourceExhausted(status) || MovesWeights(status)) continue;
    ASSERT_EQ(status, absl::OkStatus());
    EXPECT_LE(rig.device().used_bytes(), options.memory_bytes);
    const auto hashes = rig.Run(2);
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    EXPECT_EQ(*hashes, PlainRun(graph, schedule, 2));
    ++served;
    compressed += options.compresses ? CompressedCopies(schedule) : 0;
    rig.Destroy();
    EXPECT_EQ(rig.device().used_bytes(), 0);
    if (rig.pipeline() != nullptr) {
      EXPECT_EQ(rig.pipeline()->used_pages(), 0);
    }
  }
  EXPECT_GT(served, rounds / 4);
  EXPECT_GT(compressed, rounds / 4);
}

// A graph with data of one size, all of which the schedule sends compressed.
struct CompressedGraph {
  CompressedGraph() {
    RandomGraphs random(5);
    graph = SmallRandomGraph(random, 6);
    for (GraphData& data : graph.data) data.bytes = 60'000;
    raw = OffloadEverything(graph, {}).Make();
    schedule = OffloadEverything(graph, {.density = 0.5}).Make();
  }

  TaskGraph graph;
  Schedule raw;
  Schedule schedule;
};

// The first copy without room ends the iteration. Another schedule runs in the same memory.
TEST(ExecutorTest, TellsWhichCompressedCopyFindsNoRoom) {
  const CompressedGraph compressed;
  PlacedRig rig(compressed.graph, {.compresses = true, .page_bytes = 16 << 10});
  ASSERT_EQ(rig.Create(compressed.raw), absl::OkStatus());
  ASSERT_EQ(rig.Reschedule(compressed.schedule), absl::OkStatus());
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = rig.Run(1).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("step "), HasSubstr(", offload '")));
  }
  ASSERT_EQ(rig.Reschedule(compressed.raw), absl::OkStatus());
  const auto hashes = rig.Run(2);
  ASSERT_TRUE(hashes.ok()) << hashes.status();
  EXPECT_EQ(*hashes, PlainRun(compressed.graph, compressed.raw, 2));
}

// Compressed copies take no page-locked memory beside the rings of the pipeline.
TEST(ExecutorTest, CompressedCopiesTakeTheirOwnRoom) {
  const CompressedGraph compressed;
  std::int64_t peaks[2] = {};
  for (const bool compresses : {false, true}) {
    PlacedRig rig(compressed.graph, {.compresses = compresses});
    ASSERT_EQ(rig.Create(compressed.schedule), absl::OkStatus());
    ASSERT_TRUE(rig.Run(1).ok());
    peaks[compresses ? 1 : 0] = rig.timeline().peak_host_bytes;
    EXPECT_EQ(rig.timeline().peak_device_bytes, rig.timeline().pool_bytes);
  }
  EXPECT_GT(peaks[1], 0);
  EXPECT_LT(peaks[1], peaks[0]);
}

TEST(ExecutorTest, ATaskThatFailsEndsTheIterationAndNoMore) {
  RandomGraphs random(5);
  const TaskGraph graph = SmallRandomGraph(random, 12);
  const Schedule schedule = OffloadEverything(graph, {.density = 0.5}).Make();
  PlacedRigOptions options = {.compresses = true};
  options.device.copy_latency_ns = 20'000;
  PlacedRig rig(graph, options);
  ASSERT_EQ(rig.Create(schedule), absl::OkStatus());
  const std::vector<std::uint64_t> expected = PlainRun(graph, schedule, 2);
  for (std::size_t n = 1; n <= 2 * graph.tasks.size(); ++n) {
    rig.FailLaunch(n);
    const absl::Status status = rig.Run(2).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    const std::string& name = graph.tasks[(n - 1) % graph.tasks.size()].name;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("step "), HasSubstr(absl::StrCat(", run '", name, "' by '")),
                      HasSubstr("no launch, expected a kernel")));
    const auto hashes = rig.Run(2);
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    EXPECT_EQ(*hashes, expected);
  }
}

// Also in the threads of the pipeline.
TEST(ExecutorTest, ADeviceThatFailsEndsTheIterationAndNoMore) {
  RandomGraphs random(7);
  const TaskGraph graph = SmallRandomGraph(random, 4);
  const Schedule schedule = OffloadEverything(graph, {.density = 0.5}).Make();
  ASSERT_GT(CompressedCopies(schedule), 0);
  const std::vector<std::uint64_t> expected = PlainRun(graph, schedule, 1);
  bool has_failed = true;
  int failures = 0;
  for (std::int64_t n = 1; has_failed; ++n) {
    ASSERT_LT(n, 3000);
    PlacedRig rig(graph, {.compresses = true});
    ASSERT_EQ(rig.Create(schedule, {.measures = true}), absl::OkStatus());
    HostDevice& device = rig.device();
    const std::int64_t calls = device.CountCalls(HostDevice::Call::kAny);
    device.FailCall(HostDevice::Call::kAny, n);
    const auto hashes = rig.Run(1);
    has_failed = device.CountCalls(HostDevice::Call::kAny) - calls >= n;
    device.FailCall(HostDevice::Call::kAny, 0);
    if (hashes.ok()) {
      EXPECT_EQ(*hashes, expected);
      continue;
    }
    ++failures;
    EXPECT_TRUE(absl::IsUnavailable(hashes.status())) << hashes.status();
    EXPECT_THAT(std::string(hashes.status().message()), HasSubstr("step"));
    const auto again = rig.Run(1);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, expected);
    rig.Destroy();
    EXPECT_EQ(device.used_bytes(), 0);
  }
  EXPECT_GT(failures, 20);
}

TEST(ExecutorTest, ExecutorsOfOneDeviceRunAtTheSameTime) {
  const std::shared_ptr<HostDevice> device = HostDevice::Create({}).value();
  const auto run = [&](std::uint64_t seed) {
    RandomGraphs random(seed);
    const TaskGraph graph = SmallRandomGraph(random, 12);
    const Schedule schedule = OffloadEverything(graph, {.density = 0.5}).Make();
    PlacedRig rig(graph, {.compresses = true, .shared = device});
    ASSERT_EQ(rig.Create(schedule), absl::OkStatus());
    const auto hashes = rig.Run(3);
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    EXPECT_EQ(*hashes, PlainRun(graph, schedule, 3));
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) threads.emplace_back(run, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->used_bytes(), 0);
}

TEST(ExecutorTest, MeasuresTasksAndCopies) {
  RandomGraphs random(3);
  const TaskGraph graph = SmallRandomGraph(random, 10);
  for (const bool compresses : {false, true}) {
    const Schedule schedule =
        OffloadEverything(graph, {.drops_early = true, .density = 0.5}).Make();
    PlacedRig rig(graph, {.compresses = compresses});
    ASSERT_EQ(rig.Create(schedule, {.measures = true}), absl::OkStatus());
    ASSERT_TRUE(rig.Run(1).ok());
    const Timeline& timeline = rig.timeline();
    std::int64_t out = 0;
    std::int64_t in = 0;
    std::size_t events = 0;
    for (const ScheduleStep& step : schedule.steps) {
      if (step.kind == StepKind::kOffload) out += graph.data[step.index].bytes;
      if (step.kind == StepKind::kPrefetch) in += graph.data[step.index].bytes;
      events += step.kind == StepKind::kOffload || step.kind == StepKind::kPrefetch ||
                        step.kind == StepKind::kRun
                    ? 1U
                    : 0U;
    }
    EXPECT_EQ(timeline.bytes_out, out);
    EXPECT_EQ(timeline.bytes_in, in);
    EXPECT_EQ(timeline.events.size(), events);
    double tasks = 0;
    for (std::size_t i = 0; i < timeline.events.size(); ++i) {
      const TimelineEvent& event = timeline.events[i];
      EXPECT_LE(0, event.start);
      EXPECT_LE(event.start, event.end);
      EXPECT_LE(event.end, timeline.seconds);
      if (i > 0) {
        EXPECT_LE(timeline.events[i - 1].start, event.start);
      }
      if (event.kind == TimelineEvent::Kind::kTask) tasks += event.end - event.start;
    }
    EXPECT_NEAR(timeline.compute_seconds, tasks, 1e-9);
  }
}

// A pipeline belongs to one device, and its copies are of whole data.
TEST(ExecutorTest, RefusesWhatAPipelineCannotCopy) {
  using namespace testing;  // NOLINT: the words for steps
  const TaskGraph graph = SmallGraph();
  std::vector<ScheduleStep> steps = PlainSteps();
  steps.insert(steps.begin() + 6, {Offload(kMap, 0.5), Drop(kMap), Prefetch(kMap)});
  PlacedRig rig(graph, {.compresses = true});
  const Schedule placed = rig.Place(Of(graph, steps)).value();
  ASSERT_EQ(rig.Create(Of(graph, steps)), absl::OkStatus());
  Executor& executor = rig.executor();
  EXPECT_EQ(executor.Reschedule(placed), absl::OkStatus());
  for (const StepKind kind : {StepKind::kOffload, StepKind::kPrefetch}) {
    Schedule other = placed;
    const auto step = std::find_if(other.steps.begin(), other.steps.end(),
                                   [&](const ScheduleStep& one) { return one.kind == kind; });
    ScheduleStep rest = *step;
    step->end = rest.begin = 512;
    other.steps.insert(step + 1, rest);
    EXPECT_THAT(std::string(executor.Reschedule(other).message()),
                HasSubstr("'map': bytes [0, 512), expected [0, -1) of data that the host "
                          "compresses"));
  }
  const CopyCompressed copy = [](const CompressedCopy& /*copy*/) { return absl::OkStatus(); };
  EXPECT_EQ(rig.Create(Of(graph, steps), {.copy_compressed = copy}).message(),
            "a pipeline and a function `copy_compressed`, expected one of them");
}

TEST(ExecutorTest, TasksThatSleepTakeTheirTime) {
  RandomGraphs random(3);
  TaskGraph graph = SmallRandomGraph(random, 3);
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.seconds = 0.01;
  }
  Machine machine;
  machine.devices.front().memory_bytes = std::int64_t{1} << 20;
  const PlacedSchedule placed =
      PlaceInPool(graph, OffloadEverything(graph, {}).Make(), machine).value();
  const auto device = HostDevice::Create({}).value();
  const auto executor =
      Executor::Create({device.get()}, {graph}, placed.schedule, machine,
                       SleepingTasks(device.get(), graph, 0.1), nullptr, {.measures = true})
          .value();
  const Timeline timeline = executor->Run().value();
  EXPECT_GE(timeline.compute_seconds, 3 * 0.001);
}

}  // namespace
}  // namespace tidepool
