// SPDX-License-Identifier: Apache-2.0
// Random schedules on random machines, against the slow model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_schedule.h"
#include "tests/training/simulate/slow_timeline.h"
#include "tidepool/schedule/lower_bound.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace_plan.h"

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

using ::testing::HasSubstr;
using testing::RandomGraphs;
using testing::RandomSchedules;
using testing::Rounds;
using testing::SlowTimeline;

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
  options.placing.releases_early = random.Chance(0.6);
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

bool Holds(const SlowTimeline::Span& span, std::size_t data, double start, double end) {
  return span.data == data && span.start <= start && end <= span.end;
}

// Checks that no two buffers overlap at any time, and that data keeps its place while a task or
// copy uses it. Blocks that are reused in the order of steps are also reused in the order of time.
void CheckPlaces(const TaskGraph& graph, const SlowTimeline& slow) {
  const auto& spans = slow.device();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool meet_in_time = spans[i].start < spans[j].end && spans[j].start < spans[i].end;
      const bool meet_in_space = spans[i].offset < spans[j].offset + spans[j].bytes &&
                                 spans[j].offset < spans[i].offset + spans[i].bytes;
      ASSERT_FALSE(meet_in_time && meet_in_space) << spans[i].data << " " << spans[j].data;
    }
  }
  for (const TimelineEvent& event : slow.Events()) {
    std::vector<std::size_t> touched = {event.index};
    if (event.kind == TimelineEvent::Kind::kTask) {
      const GraphTask& task = graph.tasks[event.index];
      touched = task.reads;
      touched.insert(touched.end(), task.writes.begin(), task.writes.end());
      touched.insert(touched.end(), task.updates.begin(), task.updates.end());
    }
    for (const std::size_t data : touched) {
      ASSERT_TRUE(std::any_of(spans.begin(), spans.end(), [&](const SlowTimeline::Span& span) {
        return Holds(span, data, event.start, event.end);
      })) << data;
    }
  }
}

void CheckResolved(const TaskGraph& graph, const Timeline& timeline, testing::PoolMachine options,
                   const std::vector<std::int64_t>& placed) {
  options.placing.releases_early = false;
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

  const absl::StatusOr<Trace> trace = ScheduleTrace(graph, timeline.resolved);
  ASSERT_TRUE(trace.ok()) << trace.status();
  const absl::StatusOr<ReplayResult> replay =
      Replay(*trace, **MakePlacementPolicy(options.placing.placement),
             {.pool_bytes = options.memory(),
              .alignment = options.placing.alignment,
              .keep_offsets = true});
  ASSERT_TRUE(replay.ok()) << replay.status();
  ASSERT_EQ(replay->refused, 0);
  ASSERT_EQ(replay->high_water_bytes, timeline.pool_bytes);
  ASSERT_EQ(replay->offsets, placed);
}

struct Seen {
  int served = 0;
  int refused = 0;
  int without_homes = 0;
  int stayed = 0;
  int added_awaits = 0;
  int stalls[3] = {};
};

void CheckOne(const TaskGraph& graph, const Schedule& schedule, const testing::PoolMachine& options,
              Seen& seen) {
  const absl::StatusOr<Timeline> timeline = Simulate(graph, schedule, options);
  SlowTimeline slow(graph, schedule, options);
  if (!slow.HasHomes()) {
    ++seen.without_homes;
    ASSERT_EQ(timeline.status().code(), absl::StatusCode::kResourceExhausted) << timeline.status();
    ASSERT_THAT(std::string(timeline.status().message()), HasSubstr("at home there"));
    return;
  }
  if (const std::optional<std::size_t> refused = slow.Run()) {
    ++seen.refused;
    ASSERT_EQ(timeline.status().code(), absl::StatusCode::kResourceExhausted) << timeline.status();
    ASSERT_THAT(std::string(timeline.status().message()),
                HasSubstr(absl::StrCat(", step ", *refused, ", ")));
    ASSERT_THAT(std::string(timeline.status().message()), HasSubstr("more are needed for "));
    return;
  }
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ++seen.served;
  ASSERT_EQ(timeline->events, slow.Events());
  ASSERT_EQ(timeline->stalls, slow.stalls());
  ASSERT_EQ(timeline->seconds, slow.seconds());
  ASSERT_EQ(timeline->bytes_out, slow.bytes_out());
  ASSERT_EQ(timeline->bytes_in, slow.bytes_in());
  ASSERT_EQ(timeline->stayed, slow.stayed());
  ASSERT_EQ(timeline->pool_bytes, slow.pool_bytes());
  ASSERT_EQ(timeline->device_memory, slow.DeviceMemory());
  ASSERT_EQ(timeline->host_memory, slow.HostMemory());
  ASSERT_EQ(timeline->resolved.steps, slow.resolved());
  CheckSense(*timeline, options);
  ASSERT_LE(LowerBoundSeconds({&graph, 1}, schedule, options.machine),
            timeline->seconds * (1 + 1e-9) + 1e-9);
  CheckPlaces(graph, slow);
  CheckResolved(graph, *timeline, options, slow.placed());
  seen.stayed += timeline->stayed > 0 ? 1 : 0;
  seen.added_awaits += timeline->resolved.steps.size() > schedule.steps.size() ? 1 : 0;
  for (const TimelineStall& stall : timeline->stalls) ++seen.stalls[static_cast<int>(stall.reason)];
}

TEST(SimulateProperty, TimelineIsThatOfTheSlowModel) {
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
  EXPECT_GT(seen.added_awaits, rounds / 20);
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
    options.placing.releases_early = false;
    const absl::StatusOr<Timeline> planned = Simulate(graph, timeline->resolved, options);
    ASSERT_TRUE(planned.ok()) << planned.status();
    ASSERT_EQ(planned->pool_bytes, plan->height);
    ASSERT_EQ(planned->seconds, timeline->seconds);
    ASSERT_EQ(planned->resolved, timeline->resolved);
    moved += planned->pool_bytes < timeline->pool_bytes ? 1 : 0;
  }
  EXPECT_GT(moved, 0);
}

}  // namespace
}  // namespace tidepool
