// SPDX-License-Identifier: Apache-2.0
// The executor compared with the simulator: on a device with an exact clock, all tasks and copies
// start and end at the simulated times.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/paper_models.h"
#include "tests/support/pool_schedule.h"
#include "tests/support/rounds.h"
#include "tests/support/virtual_clock_device.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/schedule/random_schedule.h"
#include "tidepool/schedule/executor.h"
#include "tidepool/schedule/model_zoo.h"
#include "tidepool/schedule/offload_policy.h"

namespace tidepool {
namespace {

using testing::RandomGraphs;
using testing::RandomSchedules;
using testing::VirtualClockDevice;

constexpr std::int64_t kAlignment = 512;

std::int64_t RoundedBytes(const TaskGraph& graph) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) {
    bytes += (data.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return bytes;
}

// Scales sizes down to the memory of the host.
void Shrink(TaskGraph& graph, std::int64_t divisor, std::int64_t most) {
  const auto shrunk = [&](std::int64_t bytes) { return std::min(bytes / divisor, most); };
  for (GraphData& data : graph.data) data.bytes = shrunk(data.bytes) + 1;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) {
      algorithm.workspace_bytes = shrunk(algorithm.workspace_bytes);
    }
  }
}

// An executor on the machine that the options describe.
class ExecutorRig {
 public:
  ExecutorRig(const TaskGraph& graph, const Schedule& schedule, const testing::PoolMachine& options)
      : graph_(graph),
        device_({.out_bytes_per_second = options.link().out_bytes_per_second,
                 .in_bytes_per_second = options.link().in_bytes_per_second,
                 .latency_seconds = options.link().latency_seconds}) {
    PoolOptions pool;
    pool.initial_bytes = pool.max_bytes = options.memory();
    pool.placement = options.placing.placement;
    pool.plan = options.placing.plan;
    pool_ = Pool::Create(&device_, pool).value();
    host_ =
        PinnedPool::Create(&device_, {.max_bytes = 2 * RoundedBytes(graph) + (1 << 20)}).value();
    offloader_ = Offloader::Create(&device_, pool_.get(), host_.get(),
                                   {.release = OffloaderOptions::Release::kWhenAwaited,
                                    .one_transfer_at_a_time = !options.link().full_duplex})
                     .value();
    executor_ =
        Executor::Create(&device_, offloader_.get(), graph, schedule,
                         [this](const TaskLaunch& launch) {
                           const GraphTask& task = graph_.tasks[launch.task];
                           device_.Work(launch.stream, task.algorithms[launch.algorithm].seconds);
                           return absl::OkStatus();
                         },
                         nullptr, {.measures = true, .clock = [this] { return device_.now(); }})
            .value();
  }

  absl::StatusOr<Timeline> Run() { return executor_->Run(); }
  std::int64_t high_water_bytes() const { return pool_->Stats().high_water_bytes; }

 private:
  const TaskGraph& graph_;
  VirtualClockDevice device_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<PinnedPool> host_;
  std::unique_ptr<Offloader> offloader_;
  std::unique_ptr<Executor> executor_;
};

// Compares to a nanosecond, plus the rounding of sums of seconds.
void ExpectNear(double actual, double expected, const char* what, std::size_t step) {
  EXPECT_NEAR(actual, expected, 1e-9 * std::max(1.0, expected)) << what << " of step " << step;
}

void ExpectSame(Timeline actual, Timeline expected) {
  const auto by_step = [](const TimelineEvent& one, const TimelineEvent& other) {
    return one.step < other.step;
  };
  std::sort(actual.events.begin(), actual.events.end(), by_step);
  std::sort(expected.events.begin(), expected.events.end(), by_step);
  ASSERT_EQ(actual.events.size(), expected.events.size());
  for (std::size_t i = 0; i < actual.events.size(); ++i) {
    const TimelineEvent& event = actual.events[i];
    ASSERT_EQ(event.step, expected.events[i].step);
    ASSERT_EQ(event.kind, expected.events[i].kind);
    ASSERT_EQ(event.index, expected.events[i].index);
    ExpectNear(event.start, expected.events[i].start, "start", event.step);
    ExpectNear(event.end, expected.events[i].end, "end", event.step);
    if (::testing::Test::HasFailure()) return;
  }
  ExpectNear(actual.seconds, expected.seconds, "all", 0);
  ExpectNear(actual.compute_seconds, expected.compute_seconds, "tasks", 0);
  EXPECT_EQ(actual.bytes_out, expected.bytes_out);
  EXPECT_EQ(actual.bytes_in, expected.bytes_in);
  EXPECT_EQ(actual.stayed, expected.stayed);
}

// Returns false when memory is too small, for the simulator and the executor alike.
bool Compare(const TaskGraph& graph, const Schedule& schedule,
             const testing::PoolMachine& options) {
  const absl::StatusOr<Timeline> simulated = Simulate(graph, schedule, options);
  ExecutorRig machine(graph, schedule, options);
  const absl::StatusOr<Timeline> measured = machine.Run();
  EXPECT_EQ(measured.status().code(), simulated.status().code())
      << measured.status() << " " << simulated.status();
  if (!simulated.ok() || !measured.ok()) return false;
  ExpectSame(*measured, *simulated);
  EXPECT_EQ(machine.high_water_bytes(), simulated->pool_bytes);
  return true;
}

TEST(ExecutorTimelineTest, IsTheSimulatorsForRandomSchedules) {
  int served = 0;
  const int rounds = testing::Rounds(400);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraphs random(static_cast<std::uint64_t>(seed));
    TaskGraph graph = random.Valid(1 + random.Below(30));
    RandomGraphs homes(static_cast<std::uint64_t>(seed) + 1'000'000);
    if (homes.Chance(0.4)) homes.MoveHomes(graph);
    Shrink(graph, 1, 20'000);
    Schedule schedule = RandomSchedules(graph, random).Valid();
    schedule.fingerprint = GraphFingerprint(graph);
    for (ScheduleStep& step : schedule.steps) step.density = -1;
    testing::PoolMachine options;
    options.memory() = RoundedBytes(graph) * static_cast<std::int64_t>(20 + random.Below(130)) /
                       100 / kAlignment * kAlignment;
    options.memory() = std::max(options.memory(), kAlignment);
    options.placing.placement = random.Chance(0.5) ? "best-fit" : "high-end-offload";
    options.placing.releases_early = false;
    constexpr double kLinks[] = {1e3, 1e5, 1e7, std::numeric_limits<double>::infinity()};
    options.link().out_bytes_per_second = kLinks[random.Below(4)];
    options.link().in_bytes_per_second = kLinks[random.Below(4)];
    options.link().latency_seconds = random.Chance(0.5) ? 0 : 0.01;
    options.link().full_duplex = !(random.Chance(0.3));
    served += Compare(graph, schedule, options) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(served, rounds / 4);
}

TEST(ExecutorTimelineTest, IsTheSimulatorsForNetworks) {
  std::vector<std::string> names = KnownModels();
  names.resize(static_cast<std::size_t>(testing::Rounds(static_cast<int>(names.size()))));
  for (const std::string& name : names) {
    for (const bool awaits : {false, true}) {
      SCOPED_TRACE(name);
      ModelOptions model;
      model.batch = 8;
      TaskGraph graph = MakeModel(name, model).value();
      constexpr std::int64_t kDivisor = 1 << 14;
      Shrink(graph, kDivisor, std::int64_t{1} << 40);
      const Schedule schedule = testing::OffloadEverything(graph, {.awaits = awaits}).Make();
      testing::PoolMachine options;
      options.placing.releases_early = false;
      bool is_served = false;
      for (const int percent : {40, 70, 120}) {
        options.memory() = RoundedBytes(graph) * percent / 100 / kAlignment * kAlignment;
        for (const double link : {4e9, 64e9}) {
          options.SetRate(link / kDivisor);
          is_served |= Compare(graph, schedule, options);
        }
      }
      EXPECT_TRUE(is_served);
      if (HasFailure()) return;
    }
  }
}

void ExpectSameStalls(const std::vector<TimelineStall>& actual,
                      const std::vector<TimelineStall>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].task, expected[i].task);
    ExpectNear(actual[i].start, expected[i].start, "start of stall", i);
    ExpectNear(actual[i].seconds, expected[i].seconds, "stall", i);
    EXPECT_EQ(actual[i].reason, expected[i].reason);
    EXPECT_EQ(actual[i].data, expected[i].data);
  }
}

// A schedule that a simulation resolved runs as simulated, in planned memory too.
TEST(ExecutorTimelineTest, IsTheSimulatorsForPolicies) {
  int stalls = 0;
  for (const char* name : {"alexnet", "vgg16", "resnet-50"}) {
    constexpr std::int64_t kDivisor = 1 << 14;
    TaskGraph graph = MakeModel(name, testing::PaperModel(64)).value();
    Shrink(graph, kDivisor, std::int64_t{1} << 40);
    for (const char* policy : {"none", "vdnn", "vdnn++"}) {
      for (const char* placement : {"best-fit", "planned"}) {
        for (const double link : {4e9, 64e9}) {
          SCOPED_TRACE(::testing::Message()
                       << name << " " << policy << " " << placement << " " << link);
          testing::PoolPolicy options;
          options.set = OffloadSet::kAll;
          options.machine.memory() = 4 * RoundedBytes(graph);
          options.machine.placing.placement = placement;
          options.machine.link().out_bytes_per_second = link / kDivisor;
          options.machine.link().in_bytes_per_second = link / kDivisor;
          const Schedule schedule = testing::MakePoolSchedule(policy, graph, options).value();
          const Timeline loose = Simulate(graph, schedule, options.machine).value();
          options.machine.memory() = loose.pool_bytes;
          const Timeline simulated = Simulate(graph, schedule, options.machine).value();
          options.machine.placing.releases_early = false;
          options.machine.placing.plan = simulated.plan;
          const Timeline again = Simulate(graph, simulated.resolved, options.machine).value();
          ExpectNear(again.seconds, simulated.seconds, "all", 0);
          ExecutorRig machine(graph, simulated.resolved, options.machine);
          for (int iteration = 0; iteration < 2; ++iteration) {
            const absl::StatusOr<Timeline> measured = machine.Run();
            ASSERT_TRUE(measured.ok()) << measured.status();
            ExpectSame(*measured, again);
            ExpectSameStalls(measured->stalls, again.stalls);
          }
          stalls += static_cast<int>(again.stalls.size());
          EXPECT_EQ(machine.high_water_bytes(), simulated.pool_bytes);
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(stalls, 30);
}

// Weights keep their addresses, and the second iteration equals the first.
TEST(ExecutorTimelineTest, IterationsAreAlike) {
  ModelOptions model;
  model.batch = 8;
  TaskGraph graph = MakeModel("alexnet", model).value();
  Shrink(graph, 1 << 14, std::int64_t{1} << 40);
  const Schedule schedule = testing::OffloadEverything(graph, {}).Make();
  testing::PoolMachine options;
  options.placing.releases_early = false;
  options.memory() = 2 * RoundedBytes(graph);
  options.SetRate(1e6);
  ExecutorRig machine(graph, schedule, options);
  const Timeline simulated = Simulate(graph, schedule, options).value();
  for (int i = 0; i < 3; ++i) ExpectSame(machine.Run().value(), simulated);
}

}  // namespace
}  // namespace tidepool
