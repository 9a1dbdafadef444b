// SPDX-License-Identifier: Apache-2.0
// Random schedules of pools on random machines: their places are those of a replay, and valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/support/pool_machine.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_schedule.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_plan.h"
#include "tidepool/training/lower_bound.h"
#include "tidepool/training/timeline.h"

namespace tidepool {

bool operator==(const TimelineEvent& a, const TimelineEvent& b) {
  return a.kind == b.kind && a.index == b.index && a.step == b.step && a.start == b.start &&
         a.end == b.end;
}
bool operator==(const TimelineStall& a, const TimelineStall& b) {
  return a.task == b.task && a.start == b.start && a.seconds == b.seconds && a.reason == b.reason &&
         a.data == b.data;
}
bool operator==(const MemoryPoint& a, const MemoryPoint& b) {
  return a.seconds == b.seconds && a.bytes == b.bytes;
}

namespace {

using testing::RandomGraphs;
using testing::RandomSchedules;
using testing::Rounds;

std::int64_t BytesOf(const TaskGraph& graph) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) bytes += data.bytes;
  return bytes;
}

double AnyLink(RandomGraphs& random) {
  constexpr double kLinks[] = {1e6, 1e7, 1e8, std::numeric_limits<double>::infinity()};
  return kLinks[random.Below(4)];
}

testing::PoolMachine AnyMachine(const TaskGraph& graph, RandomGraphs& random) {
  testing::PoolMachine options;
  const auto share = [&](std::size_t percent) {
    return BytesOf(graph) / 100 * static_cast<std::int64_t>(random.Below(percent));
  };
  options.memory() = share(110);
  options.placing.alignment = random.Chance(0.5) ? 512 : random.Chance(0.5) ? 1 : 65536;
  constexpr const char* kPolicies[] = {"best-fit", "first-fit", "exact-fit-first",
                                       "high-end-offload"};
  options.placing.placement = kPolicies[random.Below(4)];
  options.link().out_bytes_per_second = AnyLink(random);
  options.link().in_bytes_per_second = AnyLink(random);
  if (random.Chance(0.5)) options.link().latency_seconds = 1e-2;
  options.link().full_duplex = !(random.Chance(0.3));
  if (random.Chance(0.5)) options.host_memory() = share(60);
  options.placing.compression_threads = static_cast<int>(random.Below(4));
  return options;
}

// Checks properties that hold for every timeline.
void CheckSense(const Timeline& timeline, const testing::PoolMachine& options) {
  ASSERT_LE(timeline.peak_device_bytes, timeline.pool_bytes);
  ASSERT_LE(timeline.pool_bytes, options.memory());
  ASSERT_LE(timeline.peak_host_bytes, options.host_memory());
  double stalled = 0;
  double task_end = 0;
  for (const TimelineStall& stall : timeline.stalls) stalled += stall.seconds;
  for (const TimelineEvent& event : timeline.events) {
    if (event.kind == TimelineEvent::Kind::kTask) task_end = std::max(task_end, event.end);
  }
  ASSERT_NEAR(timeline.compute_seconds + stalled, task_end, 1e-9 * (1 + task_end));
}

// Returns the offsets of all requests, in order.
std::vector<std::int64_t> OffsetsOf(const TaskGraph& graph, const Schedule& placed) {
  std::vector<std::int64_t> offsets;
  for (const ScheduleStep& step : placed.steps) {
    const bool takes = step.kind == StepKind::kAllocate || step.kind == StepKind::kPrefetch ||
                       (step.kind == StepKind::kRun &&
                        graph.tasks[step.index].algorithms[step.algorithm].workspace_bytes > 0);
    if (takes) offsets.push_back(step.offset);
  }
  return offsets;
}

// Checks that a pool of this size serves the requests at the same places.
void CheckReplay(const TaskGraph& graph, const PlacedSchedule& placed,
                 const testing::PoolMachine& options) {
  const absl::StatusOr<Trace> trace = ScheduleTrace(graph, placed.resolved);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<ReplayResult> replay =
      Replay(*trace, **MakePlacementPolicy(options.placing.placement),
             {.pool_bytes = options.memory(),
              .alignment = options.placing.alignment,
              .keep_offsets = true});
  ASSERT_TRUE(replay.ok()) << replay.status();
  ASSERT_EQ(replay->refused, 0);
  ASSERT_EQ(replay->high_water_bytes, placed.pool_bytes);
  ASSERT_EQ(replay->offsets, OffsetsOf(graph, placed.schedule));
}

// Checks that the resolved schedule is placed and timed alike, and needs no more drops.
void CheckResolved(const TaskGraph& graph, const Timeline& timeline,
                   const testing::PoolMachine& options) {
  const absl::StatusOr<Timeline> again = Simulate(graph, timeline.resolved, options);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->events.size(), timeline.events.size());
  for (std::size_t i = 0; i < again->events.size(); ++i) {
    TimelineEvent event = again->events[i];
    event.step = timeline.events[i].step;
    ASSERT_EQ(event, timeline.events[i]);
  }
  ASSERT_EQ(again->seconds, timeline.seconds);
  ASSERT_EQ(again->stalls, timeline.stalls);
  ASSERT_EQ(again->device_memory, timeline.device_memory);
  ASSERT_EQ(again->host_memory, timeline.host_memory);
  ASSERT_EQ(again->pool_bytes, timeline.pool_bytes);
  ASSERT_EQ(again->stayed, 0);
  ASSERT_EQ(again->resolved, timeline.resolved);
}

struct Seen {
  int served = 0;
  int refused = 0;
  int without_homes = 0;
  int stayed = 0;
  int moved_drops = 0;
  int stalls[3] = {};
};

// Whether all data that is on the device before has its memory before the first task. The bound
// takes it to be there from the begin.
bool HasInputsFirst(const TaskGraph& graph, const Schedule& schedule) {
  bool has_run = false;
  for (const ScheduleStep& step : schedule.steps) {
    has_run |= step.kind == StepKind::kRun;
    const bool is_allocated = step.kind == StepKind::kAllocate;
    if (has_run && is_allocated && graph.data[step.index].before == DataHome::kDevice) return false;
  }
  return true;
}

// Counts refusals by their cause.
void CheckRefusal(const absl::Status& status, Seen& seen) {
  ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  const std::string text(status.message());
  const bool is_home = absl::StrContains(text, "at home there");
  ++(is_home ? seen.without_homes : seen.refused);
  ASSERT_TRUE(is_home || absl::StrContains(text, "more are needed for ")) << text;
}

void CheckOne(const TaskGraph& graph, const Schedule& schedule, const testing::PoolMachine& options,
              Seen& seen) {
  const absl::StatusOr<Timeline> timeline = Simulate(graph, schedule, options);
  const absl::StatusOr<PlacedSchedule> placed =
      PlaceInPool(graph, schedule, options.machine, options.placing);
  ASSERT_EQ(timeline.status(), placed.status());
  if (!placed.ok()) return CheckRefusal(placed.status(), seen);
  ++seen.served;
  ASSERT_EQ(ValidateSchedule(graph, placed->schedule), absl::OkStatus());
  ASSERT_EQ(placed->steps.size(), placed->schedule.steps.size());
  ASSERT_EQ(timeline->resolved, placed->resolved);
  ASSERT_EQ(timeline->pool_bytes, placed->pool_bytes);
  CheckSense(*timeline, options);
  if (HasInputsFirst(graph, schedule)) {
    ASSERT_LE(LowerBoundSeconds({&graph, 1}, schedule, options.machine),
              timeline->seconds * (1 + 1e-9) + 1e-9);
  }
  CheckReplay(graph, *placed, options);
  CheckResolved(graph, *timeline, options);
  seen.stayed += timeline->stayed > 0 ? 1 : 0;
  seen.moved_drops += timeline->stayed == 0 && timeline->resolved.steps != schedule.steps ? 1 : 0;
  for (const TimelineStall& stall : timeline->stalls) ++seen.stalls[static_cast<int>(stall.reason)];
}

TEST(SimulateProperty, PlacesAreThoseOfAReplayAndValid) {
  RandomGraphs random(21);
  Seen seen;
  const int rounds = Rounds(15'000);
  for (int i = 0; i < rounds && !HasFatalFailure(); ++i) {
    SCOPED_TRACE(i);
    TaskGraph graph = random.Valid(1 + random.Below(16));
    if (random.Chance(0.3)) random.MoveHomes(graph);
    const Schedule schedule = RandomSchedules(graph, random).Valid();
    CheckOne(graph, schedule, AnyMachine(graph, random), seen);
  }
  EXPECT_GT(seen.served, rounds / 4);
  EXPECT_GT(seen.refused, rounds / 10);
  EXPECT_GT(seen.without_homes, rounds / 100);
  EXPECT_GT(seen.stayed, rounds / 20);
  EXPECT_GT(seen.moved_drops, rounds / 50);
  for (const int count : seen.stalls) EXPECT_GT(count, rounds / 20);
}

// A pool as large as a plan for the requests of a resolved schedule serves the schedule at the
// plan's offsets.
TEST(SimulateProperty, APlanForTheResolvedScheduleIsFollowed) {
  RandomGraphs random(22);
  int moved = 0;
  for (int i = 0; i < Rounds(1000); ++i) {
    const TaskGraph graph = random.Valid(1 + random.Below(12));
    const Schedule schedule = RandomSchedules(graph, random).Valid();
    testing::PoolMachine options = AnyMachine(graph, random);
    const absl::StatusOr<Timeline> timeline = Simulate(graph, schedule, options);
    if (!timeline.ok()) continue;
    const absl::StatusOr<Trace> trace = ScheduleTrace(graph, timeline->resolved);
    ASSERT_TRUE(trace.ok()) << trace.status();
    const PlanProblem problem = *ToPlanProblem(*trace, options.placing.alignment);
    const absl::StatusOr<Plan> plan = MakePlan(problem, {.time_limit_seconds = 0.01});
    ASSERT_TRUE(plan.ok()) << plan.status();
    options.placing.placement = "planned";
    options.placing.plan = ToPlacementPlan(problem, plan->offsets, plan->offsets.size());
    options.memory() = plan->height;
    const absl::StatusOr<Timeline> planned = Simulate(graph, timeline->resolved, options);
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_EQ(planned->pool_bytes, plan->height);
    ASSERT_EQ(planned->resolved, timeline->resolved);
    moved += planned->pool_bytes < timeline->pool_bytes ? 1 : 0;
  }
  EXPECT_GT(moved, 0);
}

}  // namespace
}  // namespace tidepool
