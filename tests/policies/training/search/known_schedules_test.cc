// SPDX-License-Identifier: Apache-2.0
// The policy `best` with schedules from before: no schedule in more memory is slower.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/expect_valid.h"
#include "tests/support/rounds.h"
#include "tests/support/sizes.h"
#include "tests/training/schedule/random_device_schedule.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

// The search ends by its work, and is so short that it often misses schedules of less memory.
ScheduleRequest ShortSearch(std::optional<ScheduleMemory> memory, bool recomputes) {
  ScheduleRequest request;
  request.memory = memory;
  request.options =
      BestOptions{.time_limit_seconds = 1000, .work_seconds = 0.01, .recomputes = recomputes};
  return request;
}

// Returns the memory of a device that holds all data.
std::int64_t MemoryOfAll(const TaskGraph& graph) {
  ScheduleRequest request = ShortSearch(std::nullopt, false);
  request.machine.devices.front().memory_bytes = std::int64_t{1} << 50;
  return Simulate(MakeSchedule("best", graph, request).value()).value().peak_device_bytes;
}

// Expects that times never grow over `memories`, which ascend. Returns how many schedules fit.
int ExpectNeverSlower(const TaskGraph& graph, ScheduleRequest request,
                      const std::vector<std::int64_t>& memories) {
  int fits = 0;
  double last = std::numeric_limits<double>::infinity();
  for (const std::int64_t memory : memories) {
    request.machine.devices.front().memory_bytes = memory;
    absl::StatusOr<MadeSchedule> made = MakeSchedule("best", graph, request);
    if (absl::IsResourceExhausted(made.status()) && fits == 0) continue;
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return fits;
    ++fits;
    ExpectValid(*made);
    const double seconds = Simulate(*made)->seconds;
    EXPECT_LE(seconds, last * (1 + 1e-12)) << memory;
    last = seconds;
    std::get<BestOptions>(request.options).known = {std::move(made->schedule)};
  }
  return fits;
}

TEST(KnownSchedules, NoRandomGraphIsSlowerInMoreMemory) {
  testing::RandomGraphs random(47);
  int fits = 0;
  for (int i = 0; i < 40; ++i) {
    TaskGraph graph =
        testing::RandomTraining(random).Make(static_cast<std::size_t>(2 + random.Below(5)));
    for (GraphData& data : graph.data) {
      if (ExistsAfter(data)) data.before = data.after = DataHome::kDevice;
    }
    const bool is_paged = i % 2 == 0;
    ScheduleRequest request = ShortSearch(
        is_paged ? std::optional(ScheduleMemory::kPaged) : std::nullopt, random.Chance(0.5));
    request.placing.alignment = 1;
    fits += ExpectNeverSlower(graph, request, {10, 15, 20, 25, 30, 35, 40, 45, 50, 60});
    if (HasFailure()) return;
  }
  EXPECT_GT(fits, 100);
}

TEST(KnownSchedules, NoNetworkIsSlowerInMoreMemory) {
  int fits = 0;
  for (const char* name : testing::Cases({"resnet-18", "densenet-121", "gpt2-small"})) {
    const TaskGraph graph =
        MakeModel(name, {.batch = 4, .image = 128, .inputs = DataHome::kDevice}).value();
    const std::int64_t all = MemoryOfAll(graph);
    std::vector<std::int64_t> memories;
    for (int percent = 40; percent <= 100; percent += 12) {
      memories.push_back(all / 100 * percent);
    }
    for (const auto memory : {ScheduleMemory::kFixed, ScheduleMemory::kPaged}) {
      SCOPED_TRACE(name);
      fits += ExpectNeverSlower(graph, ShortSearch(memory, fits % 2 == 0), memories);
    }
  }
  EXPECT_GE(fits, testing::Rounds(20));
}

TEST(KnownSchedules, TakesNoneThatIsNotValid) {
  const TaskGraph graph =
      MakeModel("resnet-18", {.batch = 8, .image = 64, .inputs = DataHome::kDevice}).value();
  ScheduleRequest request = ShortSearch(std::nullopt, false);
  request.machine.devices.front().memory_bytes = 1024 * kMiB;
  const MadeSchedule roomy = MakeSchedule("best", graph, request).value();
  std::int64_t lowest = 0;
  for (const ScheduleStep& step : roomy.schedule.steps) lowest = std::max(lowest, step.offset);
  request.machine.devices.front().memory_bytes = lowest;
  const MadeSchedule alone = MakeSchedule("best", graph, request).value();

  Schedule without_end = roomy.schedule;
  without_end.steps.pop_back();
  Schedule of_another = alone.schedule;
  of_another.fingerprint ^= 1;
  Schedule of_a_pool = alone.schedule;
  of_a_pool.memory = ScheduleMemory::kPool;
  Schedule of_granules = alone.schedule;
  of_granules.alignment = 256;
  std::get<BestOptions>(request.options).known = {roomy.schedule, without_end, of_another,
                                                  of_a_pool,      of_granules, Schedule()};
  const MadeSchedule made = MakeSchedule("best", graph, request).value();
  ExpectValid(made);
  EXPECT_EQ(made.schedule, alone.schedule);
}

// A known schedule with addresses is one in pages too. Its tasks run once if the request says so.
TEST(KnownSchedules, KeepsToTheRequest) {
  const TaskGraph graph =
      MakeModel("gpt2-small", {.batch = 2, .image = 256, .fused_attention = false}).value();
  ScheduleRequest request = ShortSearch(ScheduleMemory::kPaged, true);
  request.machine.devices.front().memory_bytes = MemoryOfAll(graph) / 10 * 7;
  MachineLink& link = request.machine.links.front();
  link.out_bytes_per_second = link.in_bytes_per_second = 1e9;  // so that tasks run again
  const MadeSchedule again = MakeSchedule("best", graph, request).value();
  std::get<BestOptions>(request.options).known = {again.schedule};
  std::get<BestOptions>(request.options).recomputes = false;
  const MadeSchedule once = MakeSchedule("best", graph, request).value();
  EXPECT_GT(Simulate(once)->seconds, Simulate(again)->seconds);
  ExpectValid(once);
}

}  // namespace
}  // namespace tidepool
