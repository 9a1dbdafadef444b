// SPDX-License-Identifier: Apache-2.0
// Planned schedules: offsets do not overlap in the planned height, and a schedule waits only for
// data that lies in the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/pool_machine.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_schedule.h"
#include "tests/training/schedule/small_schedule.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_plan.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using testing::RandomGraphs;
using testing::RandomSchedules;

// x leaves while b and c are made beside it, then d, for which there is room only where x or b was.
TaskGraph Row() {
  TaskGraph graph;
  graph.name = "row";
  graph.data = {{"x", 1000, DataKind::kInput}, {"b", 1000}, {"c", 1000}, {"d", 1000}, {"e", 1000}};
  const std::vector<TaskAlgorithm> algorithms = {{"plain", 1, 0}};
  graph.tasks = {{.name = "make b", .reads = {0}, .writes = {1}, .algorithms = algorithms},
                 {.name = "make c", .reads = {1}, .writes = {2}, .algorithms = algorithms},
                 {.name = "make d", .reads = {2}, .writes = {3}, .algorithms = algorithms},
                 {.name = "make e", .reads = {0, 3}, .writes = {4}, .algorithms = algorithms}};
  return graph;
}

std::vector<ScheduleStep> RowSteps() {
  using namespace testing;
  return {Allocate(0), Allocate(1), RunTask(0), Offload(0), Allocate(2), RunTask(1),
          Free(1),     Allocate(3), RunTask(2), Drop(0),    Prefetch(0), Free(2),
          Allocate(4), RunTask(3),  Free(0),    Free(3),    Free(4)};
}

testing::PoolMachine SlowLink(std::int64_t memory) {
  testing::PoolMachine options;
  options.memory() = memory;
  options.placing.alignment = 1;
  options.placing.placement = "planned";
  options.SetRate(100);  // ten seconds a piece
  return options;
}

// Checks that the requests of the trace, in their order, have their planned offsets without
// overlap.
void ExpectPlanOf(const Trace& trace, std::int64_t alignment, const PlacementPlan& plan) {
  std::vector<std::int64_t> offsets;
  for (const PlannedRequest& request : plan.requests()) offsets.push_back(request.offset);
  EXPECT_EQ(ValidatePlan(ToPlanProblem(trace, alignment).value(), offsets, plan.height_bytes()),
            absl::OkStatus());
}

TEST(PlannedSchedule, WaitsForWhatLiesInTheWay) {
  const TaskGraph graph = Row();
  testing::PoolMachine options = SlowLink(4000);
  const auto plan = [&](std::int64_t d) {
    options.placing.plan = std::make_shared<const PlacementPlan>(
        std::vector<PlannedRequest>{{.bytes = 1000, .offset = 0},
                                    {.bytes = 1000, .offset = 1000},
                                    {.bytes = 1000, .offset = 2000},
                                    {.bytes = 1000, .offset = d},
                                    {.bytes = 1000, .offset = 1000 - d},
                                    {.bytes = 1000, .offset = 3000}});
    return Simulate(graph, testing::Of(graph, RowSteps()), options).value();
  };
  const Timeline on_x = plan(0);
  ASSERT_FALSE(on_x.stalls.empty());
  EXPECT_EQ(on_x.stalls[0].task, 2);
  EXPECT_EQ(on_x.stalls[0].start, 2);
  EXPECT_EQ(on_x.stalls[0].seconds, 8);
  EXPECT_EQ(on_x.stalls[0].reason, TimelineStall::Reason::kMemory);
  const Timeline on_b = plan(1000);
  EXPECT_THAT(on_b.stalls, ::testing::SizeIs(1)) << "for the fetch of x alone";
  EXPECT_EQ(on_b.stalls[0].task, 3);
}

TEST(PlannedSchedule, IsMadeWhenThereIsNone) {
  const TaskGraph graph = Row();
  const absl::StatusOr<Timeline> timeline =
      Simulate(graph, testing::Of(graph, RowSteps()), SlowLink(3000));
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->pool_bytes, 3000);
  ASSERT_NE(timeline->plan, nullptr);
  EXPECT_EQ(timeline->plan->height_bytes(), 3000);
  testing::PoolMachine options = SlowLink(2000);
  absl::Status status = Simulate(graph, testing::Of(graph, RowSteps()), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("more are needed for data 'x'"));
  options.placing.plan = timeline->plan;
  status = Simulate(graph, testing::Of(graph, RowSteps()), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::ContainsRegex("for data .x., at offset [12]000 as planned"));
}

TEST(PlannedSchedule, IsMadeForWhatStays) {
  const TaskGraph graph = Row();
  testing::PoolMachine options = SlowLink(4000);
  options.host_memory() = 0;
  const absl::StatusOr<Timeline> timeline =
      Simulate(graph, testing::Of(graph, RowSteps()), options);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->stayed, 1);
  EXPECT_EQ(timeline->bytes_out, 0);
  EXPECT_EQ(timeline->plan->height_bytes(), timeline->peak_device_bytes);
  options.placing.plan = PlanSchedule(graph, testing::Of(graph, RowSteps()),
                                      options.placing.alignment, options.memory())
                             .value();
  EXPECT_FALSE(Simulate(graph, testing::Of(graph, RowSteps()), options).ok())
      << "a plan of the caller's is taken as it is";
}

// With any host memory, a plan fits the requests that the schedule really makes.
TEST(PlannedScheduleProperty, IsMadeForWhatStays) {
  int stayed = 0;
  const int rounds = testing::Rounds(500);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraphs random(static_cast<std::uint64_t>(seed));
    const TaskGraph graph = random.Valid(1 + random.Below(30));
    const Schedule schedule = RandomSchedules(graph, random).Valid();
    testing::PoolMachine options;
    options.memory() = std::int64_t{1} << 50;
    options.placing.placement = "planned";
    options.SetRate(1e6);
    const absl::StatusOr<Timeline> plenty = Simulate(graph, schedule, options);
    if (!plenty.ok()) continue;  // the graph is larger than that
    options.host_memory() =
        plenty->peak_host_bytes / (1 + static_cast<std::int64_t>(random.Below(4)));
    const absl::StatusOr<Timeline> timeline = Simulate(graph, schedule, options);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_LE(timeline->peak_host_bytes, options.host_memory());
    const Trace trace = ScheduleTrace(graph, timeline->resolved).value();
    ExpectPlanOf(trace, options.placing.alignment, *timeline->plan);
    stayed += timeline->stayed > 0 ? 1 : 0;
  }
  EXPECT_GT(stayed, rounds / 20);
}

// With exactly the planned memory every schedule runs, and its requests have their planned offsets
// without overlap.
TEST(PlannedScheduleProperty, RunsInItsHeight) {
  int waits = 0;
  const int rounds = testing::Rounds(2000);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraphs random(static_cast<std::uint64_t>(seed));
    const TaskGraph graph = random.Valid(1 + random.Below(30));
    const Schedule schedule = RandomSchedules(graph, random).Valid();
    testing::PoolMachine options;
    options.placing.alignment = random.Chance(0.5) ? 512 : 1;
    const auto plan = PlanSchedule(graph, schedule, options.placing.alignment, 0);
    ASSERT_TRUE(plan.ok()) << plan.status();
    options.memory() = (*plan)->height_bytes();
    options.placing.placement = "planned";
    options.placing.plan = *plan;
    options.SetRate(1e6);
    const absl::StatusOr<Timeline> timeline = Simulate(graph, schedule, options);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_EQ(timeline->pool_bytes, options.memory());
    EXPECT_LE(timeline->peak_device_bytes, options.memory());
    const Trace trace = ScheduleTrace(graph, timeline->resolved).value();
    ExpectPlanOf(trace, options.placing.alignment, **plan);
    waits += timeline->resolved.steps.size() > schedule.steps.size() ? 1 : 0;
  }
  EXPECT_GT(waits, rounds / 20);
}

}  // namespace
}  // namespace tidepool
