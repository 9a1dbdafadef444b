// SPDX-License-Identifier: Apache-2.0
// Random schedules of pools, valid and broken, against the slow model; and their traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/rounds.h"
#include "tests/training/schedule/random_schedule.h"
#include "tests/training/schedule/slow_device_schedule.h"
#include "tidepool/training/schedule.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using testing::RandomGraphs;
using testing::RandomSchedules;
using testing::Rounds;
using testing::SlowDeviceSchedule;

// A graph with data of a few bytes: the slow model keeps each of them.
TaskGraph Small(RandomGraphs& random, std::size_t tasks) {
  TaskGraph graph = random.Valid(tasks);
  if (random.Chance(0.3)) random.MoveHomes(graph);
  for (GraphData& data : graph.data) data.bytes = 1 + data.bytes % 4;
  return graph;
}

// The slow model knows no compression.
bool HasCompressionOf(const TaskGraph& graph, const Schedule& schedule) {
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind != StepKind::kOffload || step.density == -1) continue;
    const bool is_share = step.density >= 0 && step.density <= 1;
    if (!is_share || schedule::HostMayRead(graph.data[step.index])) return false;
  }
  return true;
}

bool IsValidInSlowModel(const TaskGraph& graph, const Schedule& schedule) {
  return SlowDeviceSchedule(graph, schedule).IsValid() && HasCompressionOf(graph, schedule);
}

TEST(ScheduleProperty, WhatIsMadeValidIsValid) {
  RandomGraphs random(11);
  for (int i = 0; i < Rounds(1000); ++i) {
    const TaskGraph graph = Small(random, 1 + random.Below(20));
    const Schedule schedule = RandomSchedules(graph, random).Valid();
    ASSERT_TRUE(ValidateSchedule(graph, schedule).ok()) << ValidateSchedule(graph, schedule);
    ASSERT_TRUE(IsValidInSlowModel(graph, schedule));
  }
}

TEST(ScheduleProperty, ValidationIsThatOfTheSlowModel) {
  RandomGraphs random(12);
  int valid = 0;
  int broken = 0;
  for (int i = 0; i < Rounds(10'000); ++i) {
    const TaskGraph graph = Small(random, 1 + random.Below(6));
    RandomSchedules schedules(graph, random);
    Schedule schedule = schedules.Valid();
    for (std::size_t left = 1 + random.Below(2); left > 0; --left) schedules.Change(schedule);
    const absl::Status status = ValidateSchedule(graph, schedule);
    ASSERT_EQ(status.ok(), IsValidInSlowModel(graph, schedule)) << status << i;
    ++(status.ok() ? valid : broken);
    if (status.ok()) continue;
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    ASSERT_THAT(std::string(status.message()), HasSubstr("expected"));
    ASSERT_THAT(std::string(status.message()), HasSubstr("step"));
    ASSERT_EQ(ScheduleTrace(graph, schedule).status(), status);
  }
  EXPECT_GT(valid, Rounds(10'000) / 20);
  EXPECT_GT(broken, Rounds(10'000) / 4);
}

// Returns the data live after the step, from all steps so far.
std::set<std::string> SlowLive(const TaskGraph& graph, const Schedule& schedule,
                               std::size_t steps) {
  std::set<std::string> live;
  for (std::size_t at = 0; at < steps; ++at) {
    const ScheduleStep& step = schedule.steps[at];
    if (step.kind == StepKind::kRun || step.kind == StepKind::kSynchronize) continue;
    const std::string& name = graph.data[step.index].name;
    if (step.kind == StepKind::kAllocate || step.kind == StepKind::kPrefetch) live.insert(name);
    if (step.kind == StepKind::kDrop || step.kind == StepKind::kFree) live.erase(name);
  }
  return live;
}

TEST(ScheduleProperty, TraceHoldsWhatIsLive) {
  RandomGraphs random(13);
  for (int i = 0; i < Rounds(300); ++i) {
    TaskGraph graph = random.Valid(1 + random.Below(10));
    if (random.Chance(0.3)) random.MoveHomes(graph);
    const Schedule schedule = RandomSchedules(graph, random).Valid();
    const absl::StatusOr<Trace> trace = ScheduleTrace(graph, schedule);
    ASSERT_TRUE(trace.ok()) << trace.status();
    std::map<std::string, TraceAllocation> live;
    std::size_t next = 0;
    for (std::size_t at = 0; at < schedule.steps.size(); ++at) {
      const ScheduleStep& step = schedule.steps[at];
      for (; next < trace->events.size(); ++next) {
        const TraceEvent& event = trace->events[next];
        if (event.time != static_cast<std::int64_t>(at)) break;
        const std::string id(trace->allocation_ids[event.index]);
        if (event.kind == TraceEvent::Kind::kFree) {
          ASSERT_EQ(live.erase(id), 1);
          continue;
        }
        const TraceAllocation& allocation = trace->allocations[event.index];
        ASSERT_TRUE(live.emplace(id, allocation).second);
        if (step.kind == StepKind::kRun) {
          const GraphTask& task = graph.tasks[step.index];
          ASSERT_EQ(id, task.name + ".workspace");
          ASSERT_EQ(allocation.bytes, task.algorithms[step.algorithm].workspace_bytes);
        } else {
          ASSERT_EQ(id, graph.data[step.index].name);
          ASSERT_EQ(allocation.bytes, graph.data[step.index].bytes);
          ASSERT_EQ(allocation.hint, step.hint);
        }
      }
      std::set<std::string> names;
      for (const auto& [name, allocation] : live) names.insert(name);
      ASSERT_EQ(names, SlowLive(graph, schedule, at + 1)) << at;
    }
    ASSERT_EQ(next, trace->events.size());
  }
}

}  // namespace
}  // namespace tidepool
