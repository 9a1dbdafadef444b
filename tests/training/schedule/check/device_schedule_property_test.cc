// SPDX-License-Identifier: Apache-2.0
// Random schedules with fixed addresses and pages, valid and broken, against the slow model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_device_schedule.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using testing::RandomDeviceSchedules;
using testing::RandomGraphs;
using testing::RandomTraining;
using testing::Rounds;
using testing::SlowDeviceSchedule;

ScheduleMemory AnyMemory(RandomGraphs& random) {
  return random.Chance(0.5) ? ScheduleMemory::kFixed : ScheduleMemory::kPaged;
}

// The features that random schedules must show, so that the test cannot become empty unnoticed.
struct Features {
  int schedules = 0;
  int reruns = 0;
  int ranges = 0;
  int drops = 0;
  int repeated = 0;
  int hosts = 0;
};

void Count(const TaskGraph& graph, const Schedule& schedule, Features& features) {
  ++features.schedules;
  std::vector<int> runs(graph.tasks.size());
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == StepKind::kRun) features.hosts += step.device == kHostDevice ? 1 : 0;
    if (step.kind == StepKind::kRun) ++runs[step.index];
    features.drops += step.kind == StepKind::kDrop ? 1 : 0;
    features.ranges += step.begin > 0 ? 1 : 0;
  }
  const int most = static_cast<int>(schedule.devices) *
                   static_cast<int>(std::max<std::size_t>(schedule.rounds.size(), 1));
  for (const int times : runs) features.reruns += times > most ? 1 : 0;
  for (const ScheduleRound& round : schedule.rounds) features.repeated += round.times > 1 ? 1 : 0;
}

TEST(DeviceScheduleProperty, ValidationIsThatOfTheSlowModel) {
  RandomGraphs random(21);
  Features features;
  int valid = 0;
  int broken = 0;
  for (int i = 0; i < Rounds(3000); ++i) {
    SCOPED_TRACE(i);
    const TaskGraph graph = RandomTraining(random).Make(1 + random.Below(3));
    ASSERT_EQ(ValidateGraph(graph), absl::OkStatus());
    const std::size_t devices = 1 + random.Below(2);
    RandomDeviceSchedules schedules(graph, random, AnyMemory(random), devices);
    const std::optional<Schedule> made = schedules.Valid(1 + random.Below(4));
    if (!made.has_value()) continue;
    Count(graph, *made, features);
    ASSERT_EQ(ValidateSchedule(graph, *made), absl::OkStatus());
    ASSERT_TRUE(SlowDeviceSchedule(graph, *made).IsValid());
    for (int change = 0; change < 4; ++change) {
      Schedule schedule = *made;
      RandomDeviceSchedules::Change(graph, random, schedule);
      const absl::Status status = ValidateSchedule(graph, schedule);
      // The model knows no offsets.
      if (absl::StrContains(status.message(), "offset")) continue;
      ASSERT_EQ(status.ok(), SlowDeviceSchedule(graph, schedule).IsValid()) << status;
      ++(status.ok() ? valid : broken);
      if (status.ok()) continue;
      ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      ASSERT_THAT(std::string(status.message()), HasSubstr("expected"));
      ASSERT_THAT(std::string(status.message()), HasSubstr("step"));
    }
  }
  EXPECT_GT(features.schedules, Rounds(3000) / 3);
  EXPECT_GT(features.reruns, Rounds(3000) / 20);
  EXPECT_GT(features.ranges, Rounds(3000) / 20);
  EXPECT_GT(features.drops, Rounds(3000));
  EXPECT_GT(features.repeated, Rounds(3000) / 20);
  EXPECT_GT(features.hosts, Rounds(3000) / 20);
  EXPECT_GT(valid, Rounds(3000) / 20);
  EXPECT_GT(broken, Rounds(3000) / 2);
}

}  // namespace
}  // namespace tidepool
