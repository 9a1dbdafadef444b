// SPDX-License-Identifier: Apache-2.0
// The executor compared with the simulator for schedules of a pool, on a device with an exact
// clock: it holds the simulated memory, copies the same bytes, and takes the simulated time.
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
#include "tidepool/training/executor.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

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

absl::StatusOr<Timeline> RunOnce(const TaskGraph& graph, const Schedule& placed,
                                 const testing::PoolMachine& pool) {
  VirtualClockDevice device({.out_bytes_per_second = pool.link().out_bytes_per_second,
                             .in_bytes_per_second = pool.link().in_bytes_per_second,
                             .latency_seconds = pool.link().latency_seconds});
  const absl::StatusOr<std::unique_ptr<Executor>> executor =
      Executor::Create({&device}, {graph}, placed, pool.machine,
                       [&](const TaskLaunch& launch) {
                         const GraphTask& task = graph.tasks[launch.task];
                         device.Work(launch.stream, task.algorithms[launch.algorithm].seconds);
                         return absl::OkStatus();
                       },
                       nullptr, {.measures = true, .clock = [&] { return device.now(); }});
  if (!executor.ok()) return executor.status();
  EXPECT_LE(device.used_bytes(), pool.memory());
  return (*executor)->Run();
}

// Runs the schedule at the simulated offsets. Returns false when memory is too small, or when
// weights come back to other places.
bool Compare(const TaskGraph& graph, const Schedule& schedule,
             const testing::PoolMachine& options) {
  const absl::StatusOr<PlacedSchedule> placed =
      PlaceInPool(graph, schedule, options.machine, options.placing);
  if (!placed.ok()) return false;
  const Timeline simulated =
      SimulateProgram(graph, LowerSchedule({&graph, 1}, placed->schedule, options.machine).value());
  const absl::StatusOr<Timeline> measured = RunOnce(graph, placed->schedule, options);
  if (absl::IsInvalidArgument(measured.status())) return false;
  EXPECT_TRUE(measured.ok()) << measured.status();
  if (!measured.ok()) return false;
  EXPECT_EQ(measured->events.size(), simulated.events.size());
  EXPECT_EQ(measured->bytes_out, simulated.bytes_out);
  EXPECT_EQ(measured->bytes_in, simulated.bytes_in);
  const double tolerance = 1e-9 * std::max(1.0, simulated.seconds);
  EXPECT_NEAR(measured->compute_seconds, simulated.compute_seconds, tolerance);
  EXPECT_NEAR(measured->seconds, simulated.seconds, tolerance);
  EXPECT_LE(measured->pool_bytes, placed->pool_bytes);
  EXPECT_GT(measured->pool_bytes, placed->pool_bytes - kAlignment);
  return true;
}

TEST(ExecutorTimelineTest, PlacesAndCopiesAsSimulatedForRandomSchedules) {
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

TEST(ExecutorTimelineTest, PlacesAndCopiesAsSimulatedForNetworks) {
  std::vector<std::string> names = KnownModels();
  names.resize(static_cast<std::size_t>(testing::Rounds(static_cast<int>(names.size()))));
  for (const std::string& name : names) {
    for (const bool drops_early : {false, true}) {
      SCOPED_TRACE(name);
      ModelOptions model;
      model.batch = 8;
      TaskGraph graph = MakeModel(name, model).value();
      constexpr std::int64_t kDivisor = 1 << 14;
      Shrink(graph, kDivisor, std::int64_t{1} << 40);
      const Schedule schedule =
          testing::OffloadEverything(graph, {.drops_early = drops_early}).Make();
      testing::PoolMachine options;
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

TEST(ExecutorTimelineTest, PlacesAndCopiesAsSimulatedForPolicies) {
  for (const char* name : {"alexnet", "vgg16", "resnet-50"}) {
    constexpr std::int64_t kDivisor = 1 << 14;
    TaskGraph graph = MakeModel(name, testing::PaperModel(64)).value();
    Shrink(graph, kDivisor, std::int64_t{1} << 40);
    for (const char* policy : {"none", "vdnn", "vdnn++"}) {
      for (const char* placement : {"best-fit", "planned"}) {
        SCOPED_TRACE(::testing::Message() << name << " " << policy << " " << placement);
        testing::PoolPolicy options;
        options.set = OffloadSet::kAll;
        options.machine.memory() = 4 * RoundedBytes(graph);
        options.machine.placing.placement = placement;
        options.machine.SetRate(4e9 / kDivisor);
        const Schedule schedule = testing::MakePoolSchedule(policy, graph, options).value();
        options.machine.memory() = Simulate(graph, schedule, options.machine)->pool_bytes;
        EXPECT_TRUE(Compare(graph, schedule, options.machine));
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace tidepool
