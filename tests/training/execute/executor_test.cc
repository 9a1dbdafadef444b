// SPDX-License-Identifier: Apache-2.0
// The executor with real data on the host device: tasks read the same bytes as in a plain run in
// memory, for every schedule.
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
#include "tests/copies/offload/offloader_fixture.h"
#include "tests/support/rounds.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/execute/task_work.h"
#include "tests/training/schedule/random_schedule.h"
#include "tests/training/schedule/small_schedule.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RandomGraphs;
using testing::RandomSchedules;

class Rig {
 public:
  Rig(const TaskGraph& graph, const Schedule& schedule, const OffloaderFixtureOptions& options,
      bool measures = false)
      : graph_(graph), fixture_(options), hashes_(graph.tasks.size()) {
    executor_ = Create(schedule, measures).value();
  }

  absl::StatusOr<std::unique_ptr<Executor>> Create(const Schedule& schedule, bool measures) {
    return Executor::Create(
        &fixture_.device(), &fixture_.offloader(), graph_, schedule,
        [this](const TaskLaunch& launch) { return Launch(launch); },
        [this](std::size_t data, void* address, Stream stream) {
          return fixture_.device().CallHost(stream, [=, bytes = graph_.data[data].bytes] {
            WritePattern(address, bytes, 1000 + data);
          });
        },
        {.measures = measures});
  }
  absl::StatusOr<Timeline> Run() { return executor_->Run(); }
  absl::Status Reschedule(const Schedule& schedule) { return executor_->Reschedule(schedule); }
  // Returns the hashes of this number of iterations.
  absl::StatusOr<std::vector<std::uint64_t>> Run(int iterations) {
    std::vector<std::uint64_t> hashes;
    for (int i = 0; i < iterations; ++i) {
      const auto timeline = executor_->Run();
      if (!timeline.ok()) return timeline.status();
      hashes.insert(hashes.end(), hashes_.begin(), hashes_.end());
    }
    return hashes;
  }
  // Makes the launch of the n-th task from now on fail; 0: no launch.
  void FailLaunch(std::size_t n) { failing_ = n; }
  void Destroy() { executor_.reset(); }
  OffloaderFixture& fixture() { return fixture_; }

 private:
  absl::Status Launch(const TaskLaunch& launch) {
    if (failing_ > 0 && --failing_ == 0) {
      return absl::InternalError("no launch, expected a kernel");
    }
    return fixture_.device().CallHost(
        launch.stream, [this, launch] { hashes_[launch.task] = DoTask(graph_, launch); });
  }

  const TaskGraph& graph_;
  OffloaderFixture fixture_;
  std::vector<std::uint64_t> hashes_;
  std::size_t failing_ = 0;
  std::unique_ptr<Executor> executor_;
};

TaskGraph SmallRandomGraph(RandomGraphs& random, std::size_t tasks) {
  TaskGraph graph = random.Valid(tasks);
  for (GraphData& data : graph.data) data.bytes = 1 + data.bytes % 9000;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) {
      algorithm.workspace_bytes = std::min<std::int64_t>(algorithm.workspace_bytes, 5000);
    }
  }
  if (random.Chance(0.4)) random.MoveHomes(graph);
  return graph;
}
Schedule RandomSchedule(const TaskGraph& graph, RandomGraphs& random) {
  Schedule schedule = RandomSchedules(graph, random).Valid();
  schedule.fingerprint = GraphFingerprint(graph);
  return schedule;
}

TEST(ExecutorTest, TasksReadTheRightBytes) {
  int served = 0;
  const int rounds = testing::Rounds(120);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraphs random(static_cast<std::uint64_t>(seed));
    const TaskGraph graph = SmallRandomGraph(random, 2 + random.Below(20));
    const Schedule schedule =
        random.Chance(0.7)
            ? RandomSchedule(graph, random)
            : testing::OffloadEverything(graph, {.drops_early = random.Chance(0.5),
                                                 .density = random.Chance(0.5) ? 0.5 : -1.0,
                                                 .moves_weights = random.Chance(0.5)})
                  .Make();
    OffloaderFixtureOptions options;
    options.release = random.Chance(0.5) ? kWhenOut : kWhenAwaited;
    options.compresses = random.Chance(0.5);
    options.pool_bytes = std::int64_t{1} << (15 + random.Below(4));
    if (random.Chance(0.3)) options.host_bytes = 64 << 10;
    if (random.Chance(0.3)) options.page_bytes = 64 << 10;
    options.one_transfer_at_a_time = random.Chance(0.2);
    if (random.Chance(0.5)) {
      options.device.copy_bytes_per_second = 1e8;
      options.device.copy_latency_ns = 20'000;
    }
    Rig rig(graph, schedule, options, random.Chance(0.3));
    const auto hashes = rig.Run(2);
    if (absl::IsResourceExhausted(hashes.status())) continue;
    ++served;
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    EXPECT_EQ(*hashes, PlainRun(graph, schedule, 2));
  }
  EXPECT_GT(served, rounds / 4);
}

// A buffer that is leaving has no address, and one that came back no copy on the host.
TEST(ExecutorTest, RefusesDropsThatALivePoolCannotCarryOut) {
  using namespace testing;  // NOLINT: the words for steps
  TaskGraph graph = SmallGraph();
  graph.tasks[kConv].may_rerun = true;
  Rig rig(graph, Of(graph, PlainSteps()), {});
  const auto error_of = [&](std::size_t at, const std::vector<ScheduleStep>& more) {
    std::vector<ScheduleStep> steps = PlainSteps();
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
    const Schedule schedule = Of(graph, steps);
    EXPECT_EQ(ValidateSchedule(graph, schedule), absl::OkStatus());
    const absl::Status status = rig.Create(schedule, false).status();
    EXPECT_EQ(rig.Reschedule(schedule), status);
    return std::string(status.message());
  };
  EXPECT_EQ(error_of(4, {Offload(kMap)}),
            "step 6, run 'loss': of data that was sent, expected its drop in a live pool");
  EXPECT_EQ(error_of(4, {Offload(kMap), Offload(kMap)}),
            "step 5, offload 'map': of data that was sent, expected its drop in a live pool");
  EXPECT_EQ(error_of(4, {Offload(kMap), Drop(kMap), Prefetch(kMap), Drop(kMap), Prefetch(kMap)}),
            "step 7, drop 'map': of data that was not sent since it came, expected an offload in a "
            "live pool");
  EXPECT_EQ(error_of(4, {Offload(kMap), Drop(kMap), Allocate(kMap), RunTask(kConv)}),
            "step 6, allocate 'map': of data that was dropped, expected a prefetch in a live pool");
  EXPECT_EQ(error_of(15, {Offload(kKernel)}),
            "after the last step: data 'kernel' was sent, expected its drop in a live pool");
  EXPECT_EQ(error_of(13, {Offload(kSlope)}), "");
  EXPECT_EQ(error_of(15, {Offload(kKernel), Drop(kKernel), Prefetch(kKernel)}), "");
}

// Weights of earlier iterations are read again after the schedule has changed.
TEST(ExecutorTest, WeightsStayWhenTheScheduleChanges) {
  int served = 0;
  const int rounds = testing::Rounds(60);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraphs random(static_cast<std::uint64_t>(seed));
    const TaskGraph graph = SmallRandomGraph(random, 2 + random.Below(20));
    const Schedule raw = testing::OffloadEverything(graph, {.drops_early = true}).Make();
    const Schedule compressed =
        testing::OffloadEverything(graph, {.drops_early = true, .density = 0.5}).Make();
    OffloaderFixtureOptions options;
    options.release = kWhenAwaited;
    options.compresses = true;
    Rig rig(graph, raw, options);
    auto hashes = rig.Run(2);
    for (const Schedule* schedule : {&compressed, &raw}) {
      ASSERT_EQ(rig.Reschedule(*schedule), absl::OkStatus());
      const auto more = rig.Run(1);
      if (!hashes.ok() || !more.ok()) hashes = more.ok() ? hashes.status() : more.status();
      if (hashes.ok()) hashes->insert(hashes->end(), more->begin(), more->end());
    }
    if (absl::IsResourceExhausted(hashes.status())) continue;
    ++served;
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    EXPECT_EQ(*hashes, PlainRun(graph, raw, 4));
  }
  EXPECT_GT(served, rounds / 4);
}

class NoRoomTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ToldElsewhere, NoRoomTest, ::testing::Bool());

// Each copy out has ended, refused, before the next task is queued and the data is prefetched.
// Another user of the offloader may have received the error.
TEST_P(NoRoomTest, LeavesDataWhereItIs) {
  const bool is_told_elsewhere = GetParam();
  RandomGraphs random(5);
  TaskGraph graph = SmallRandomGraph(random, 6);
  for (GraphData& data : graph.data) data.bytes = 60'000;
  const Schedule schedule = testing::OffloadEverything(graph, {.density = 0.5}).Make();
  std::vector<std::int64_t> sent_before(graph.tasks.size());
  std::int64_t sent = 0;  // compressed
  std::int64_t raw = 0;   // data that the host may read
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == StepKind::kOffload) ++(step.density >= 0 ? sent : raw);
    if (step.kind == StepKind::kRun) sent_before[step.index] = sent;
  }
  ASSERT_GT(sent, 0);
  OffloaderFixtureOptions options;
  options.compresses = true;
  options.pool_bytes = std::int64_t{4} << 20;
  options.page_bytes = 16 << 10;
  OffloaderFixture fixture(options);
  const auto launch = [&](const TaskLaunch& task) {
    const std::int64_t bytes = graph.data[0].bytes;
    for (void* const to : task.writes) {
      absl::Status status = fixture.device().CallHost(
          task.stream, [=, seed = task.task] { WritePattern(to, bytes, seed); });
      if (!status.ok()) return status;
    }
    while (fixture.offloader().Stats().refused < sent_before[task.task]) std::this_thread::yield();
    while (is_told_elsewhere && !fixture.offloader().Synchronize().ok()) continue;
    return absl::OkStatus();
  };
  const auto fill = [&](std::size_t data, void* address, Stream stream) {
    return fixture.device().CallHost(
        stream, [=, bytes = graph.data[data].bytes] { WritePattern(address, bytes, data); });
  };
  const auto executor =
      Executor::Create(&fixture.device(), &fixture.offloader(), graph, schedule, launch, fill, {})
          .value();
  const absl::StatusOr<Timeline> timeline = executor->Run();
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_GT(timeline->stayed, 0);
  EXPECT_EQ(timeline->bytes_out, raw * graph.data[0].bytes);
}

TEST(ExecutorTest, ATaskThatFailsEndsTheIterationAndNoMore) {
  for (const auto release : {kWhenOut, kWhenAwaited}) {
    RandomGraphs random(5);
    const TaskGraph graph = SmallRandomGraph(random, 12);
    const Schedule schedule = testing::OffloadEverything(graph, {.moves_weights = true}).Make();
    OffloaderFixtureOptions options;
    options.release = release;
    options.device.copy_latency_ns = 20'000;
    Rig rig(graph, schedule, options);
    const std::vector<std::uint64_t> expected = PlainRun(graph, schedule, 2);
    for (std::size_t n = 1; n <= 2 * graph.tasks.size(); ++n) {
      rig.FailLaunch(n);
      const absl::Status status = rig.Run(2).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      const std::string& name = graph.tasks[(n - 1) % graph.tasks.size()].name;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("step "), HasSubstr(absl::StrCat(", run task '", name, "' by '")),
                        HasSubstr("no launch, expected a kernel")));
      EXPECT_EQ(rig.fixture().offloader().Stats().buffers, 0);
      EXPECT_EQ(rig.fixture().pool().Stats().live_bytes, 0);
      const auto hashes = rig.Run(2);
      ASSERT_TRUE(hashes.ok()) << hashes.status();
      EXPECT_EQ(*hashes, expected);
    }
    rig.Destroy();
    EXPECT_EQ(rig.fixture().offloader().Stats().buffers, 0);
  }
}

TEST(ExecutorTest, ADeviceThatFailsEndsTheIterationAndNoMore) {
  for (const bool compresses : {false, true}) {
    for (const auto release : {kWhenOut, kWhenAwaited}) {
      RandomGraphs random(7);
      const TaskGraph graph = SmallRandomGraph(random, 4);
      const Schedule schedule =
          testing::OffloadEverything(graph,
                                     {.density = compresses ? 0.5 : -1.0, .moves_weights = true})
              .Make();
      OffloaderFixtureOptions options;
      options.release = release;
      options.compresses = compresses;
      const std::vector<std::uint64_t> expected = PlainRun(graph, schedule, 1);
      bool has_failed = true;
      for (std::int64_t n = 1; has_failed; ++n) {
        ASSERT_LT(n, 3000);
        Rig fresh(graph, schedule, options, true);
        const std::int64_t calls = fresh.fixture().device().CountCalls(HostDevice::Call::kAny);
        fresh.fixture().device().FailCall(HostDevice::Call::kAny, n);
        const auto hashes = fresh.Run(1);
        has_failed = fresh.fixture().device().CountCalls(HostDevice::Call::kAny) - calls >= n;
        fresh.fixture().device().FailCall(HostDevice::Call::kAny, 0);
        if (hashes.ok()) {
          EXPECT_EQ(*hashes, expected);
          continue;
        }
        EXPECT_TRUE(absl::IsUnavailable(hashes.status())) << hashes.status();
        EXPECT_EQ(fresh.fixture().offloader().Stats().buffers, 0);
        EXPECT_EQ(fresh.fixture().pool().Stats().live_bytes, 0);
        const auto again = fresh.Run(1);
        ASSERT_TRUE(again.ok()) << again.status();
        EXPECT_EQ(*again, expected);
      }
    }
  }
}

TEST(ExecutorTest, ExecutorsOfOneOffloaderRunAtTheSameTime) {
  for (const auto release : {kWhenOut, kWhenAwaited}) {
    OffloaderFixtureOptions options;
    options.release = release;
    options.compresses = true;
    OffloaderFixture fixture(options);
    HostDevice& device = fixture.device();
    const auto run = [&](std::uint64_t seed) {
      RandomGraphs random(seed);
      const TaskGraph graph = SmallRandomGraph(random, 12);
      const Schedule schedule =
          testing::OffloadEverything(graph, {.density = 0.5, .moves_weights = true}).Make();
      std::vector<std::uint64_t> hashes(graph.tasks.size());
      const auto launch = [&](const TaskLaunch& task) {
        return device.CallHost(task.stream, [&, task] { hashes[task.task] = DoTask(graph, task); });
      };
      const auto fill = [&](std::size_t data, void* address, Stream stream) {
        return device.CallHost(stream, [=, bytes = graph.data[data].bytes] {
          WritePattern(address, bytes, 1000 + data);
        });
      };
      const auto executor =
          Executor::Create(&device, &fixture.offloader(), graph, schedule, launch, fill, {})
              .value();
      std::vector<std::uint64_t> all;
      for (int i = 0; i < 3; ++i) {
        const auto timeline = executor->Run();
        EXPECT_TRUE(timeline.ok()) << timeline.status();
        all.insert(all.end(), hashes.begin(), hashes.end());
      }
      EXPECT_EQ(all, PlainRun(graph, schedule, 3));
    };
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) threads.emplace_back(run, seed);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fixture.offloader().Stats().buffers, 0);
  }
}

TEST(ExecutorTest, MeasuresTasksAndCopies) {
  RandomGraphs random(3);
  const TaskGraph graph = SmallRandomGraph(random, 10);
  for (const bool compresses : {false, true}) {
    const Schedule schedule =
        testing::OffloadEverything(graph, {.drops_early = true, .density = 0.5}).Make();
    OffloaderFixtureOptions options;
    options.compresses = compresses;
    Rig rig(graph, schedule, options, true);
    const Timeline timeline = rig.Run().value();
    std::int64_t out = 0;
    std::size_t events = 0;
    for (const ScheduleStep& step : schedule.steps) {
      if (step.kind == StepKind::kOffload) out += graph.data[step.index].bytes;
      events += step.kind == StepKind::kOffload || step.kind == StepKind::kPrefetch ||
                        step.kind == StepKind::kRun
                    ? 1U
                    : 0U;
    }
    EXPECT_EQ(timeline.bytes_out, out);
    EXPECT_EQ(timeline.bytes_in, out);
    EXPECT_EQ(timeline.events.size(), events);
    EXPECT_GT(timeline.peak_device_bytes, 0);
    EXPECT_GT(timeline.peak_host_bytes, 0);
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

TEST(ExecutorTest, RefusesInvalidSchedulesAndArguments) {
  RandomGraphs random(3);
  const TaskGraph graph = SmallRandomGraph(random, 3);
  Schedule schedule = testing::OffloadEverything(graph, {}).Make();
  Rig rig(graph, schedule, {});
  const auto code = [&](const absl::StatusOr<std::unique_ptr<Executor>>& executor) {
    return executor.status().code();
  };
  EXPECT_EQ(code(Executor::Create(&rig.fixture().device(), &rig.fixture().offloader(), graph,
                                  schedule, nullptr, nullptr, {})),
            absl::StatusCode::kInvalidArgument);
  schedule.fingerprint ^= 1;
  EXPECT_EQ(code(rig.Create(schedule, false)), absl::StatusCode::kFailedPrecondition);
  schedule.fingerprint ^= 1;
  schedule.memory = ScheduleMemory::kFixed;
  EXPECT_EQ(rig.Create(schedule, false).status().message(),
            "the executor takes no schedule with fixed memory, expected one of a pool");
  schedule.memory = ScheduleMemory::kPool;
  schedule.steps.pop_back();
  EXPECT_EQ(code(rig.Create(schedule, false)), absl::StatusCode::kInvalidArgument);
}

TEST(ExecutorTest, TellsEachStepBeforeItIsPerformed) {
  RandomGraphs random(3);
  const TaskGraph graph = SmallRandomGraph(random, 3);
  const Schedule schedule = testing::OffloadEverything(graph, {}).Make();
  OffloaderFixture fixture;
  std::vector<std::size_t> steps;
  const auto executor =
      Executor::Create(&fixture.device(), &fixture.offloader(), graph, schedule,
                       SleepingTasks(&fixture.device(), graph, 0), nullptr,
                       {.on_step = [&](std::size_t step) { steps.push_back(step); }})
          .value();
  ASSERT_TRUE(executor->Run().ok());
  ASSERT_TRUE(executor->Run().ok());
  ASSERT_EQ(steps.size(), 2 * schedule.steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], i % schedule.steps.size());
}

TEST(ExecutorTest, TasksThatSleepTakeTheirTime) {
  RandomGraphs random(3);
  TaskGraph graph = SmallRandomGraph(random, 3);
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.seconds = 0.01;
  }
  const Schedule schedule = testing::OffloadEverything(graph, {}).Make();
  OffloaderFixture fixture;
  const auto executor =
      Executor::Create(&fixture.device(), &fixture.offloader(), graph, schedule,
                       SleepingTasks(&fixture.device(), graph, 0.1), nullptr, {.measures = true})
          .value();
  const Timeline timeline = executor->Run().value();
  EXPECT_GE(timeline.compute_seconds, 3 * 0.001);
}

}  // namespace
}  // namespace tidepool
