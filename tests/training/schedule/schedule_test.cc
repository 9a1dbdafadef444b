// SPDX-License-Identifier: Apache-2.0
// Names, fingerprints, every error of a schedule, and a trace by hand.
#include "tidepool/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/training/schedule/small_schedule.h"
#include "tidepool/schedule/model_zoo.h"

namespace tidepool {
namespace {

using namespace testing;  // NOLINT: the words for steps
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Schedule, StepKindsHaveNames) {
  std::vector<std::string> names;
  names.reserve(8);
  for (int kind = 0; kind < 8; ++kind) {
    names.emplace_back(StepKindName(static_cast<StepKind>(kind)));
  }
  EXPECT_THAT(names, ElementsAre("allocate", "free", "run", "offload", "await", "prefetch",
                                 "synchronize", "drop"));
  EXPECT_EQ(ScheduleMemoryName(ScheduleMemory::kPool), "pool");
  EXPECT_EQ(ScheduleMemoryName(ScheduleMemory::kFixed), "fixed");
  EXPECT_EQ(ScheduleMemoryName(ScheduleMemory::kPaged), "paged");
}

// Schedules may be kept in files: a fingerprint must not change from build to build.
TEST(GraphFingerprint, IsTheSameEverywhere) {
  EXPECT_EQ(GraphFingerprint(SmallGraph()), 4538669890093848943U);
  EXPECT_EQ(GraphFingerprint(TaskGraph{}), 7531491279257128099U);
}

TEST(GraphFingerprint, TellsGraphsApart) {
  const std::uint64_t plain = GraphFingerprint(SmallGraph());
  std::vector<TaskGraph> others(23, SmallGraph());
  others[0].data[kMap].name = "mop";
  others[1].data[kMap].bytes += 1;
  others[2].data[kSlope].kind = DataKind::kActivation;
  others[3].tasks[kLoss].name = "less";
  others[4].tasks[kLoss].reads.push_back(kBatch);
  std::swap(others[5].tasks[kUpdate].reads, others[5].tasks[kUpdate].updates);
  others[6].tasks[kConv].algorithms[1].name = "fast";
  others[7].tasks[kConv].algorithms[1].workspace_bytes += 1;
  others[8].tasks[kConv].algorithms.pop_back();
  std::swap(others[9].tasks[kConv], others[9].tasks[kLoss]);
  std::swap(others[10].data[kStep], others[10].data[kSlope]);
  others[11].data.pop_back();
  others[12].tasks.pop_back();
  others[13].data[kMap].bytes |= std::int64_t{1} << 49;
  others[14].data[kBatch].before = DataHome::kHost;
  others[15].data[kBatch].after = DataHome::kDevice;
  others[16].data[kBatch].before = others[16].data[kBatch].after = DataHome::kHost;
  others[17].data[kMap].after = DataHome::kHost;
  others[18].tasks[kConv].may_rerun = true;
  others[19].tasks[kBack].phase = TaskPhase::kForward;
  others[20].tasks[kBack].phase = TaskPhase::kUpdate;
  others[21].tasks[kUpdate].phase = TaskPhase::kBackward;
  others[22].tasks[kConv].phase = TaskPhase::kUpdate;
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(GraphFingerprint(others[i]), plain) << i;
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(GraphFingerprint(others[i]), GraphFingerprint(others[j])) << i << " " << j;
    }
  }
}

// Schedules of the zoo's graphs were written before fingerprints counted phases.
TEST(GraphFingerprint, IsThatOfEarlierFiles) {
  EXPECT_EQ(GraphFingerprint(MakeModel("resnet-50", {.batch = 2}).value()), 0x17ceee9d3513a91e);
  EXPECT_EQ(GraphFingerprint(MakeModel("gpt2-small", {.batch = 1}).value()), 0xa2f9569ca1ea7272);
  EXPECT_EQ(GraphFingerprint(
                MakeModel("alexnet", {.batch = 5, .backward = BackwardTasks::kFused}).value()),
            0xa57d00dea0dc09fe);
}

TEST(GraphFingerprint, DoesNotCountTimesAndLayers) {
  TaskGraph graph = SmallGraph();
  graph.name = "measured";
  graph.batch = 0;
  for (GraphTask& task : graph.tasks) {
    task.layer = "layer";
    task.operation = "relu";
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.seconds = 7;
  }
  EXPECT_EQ(GraphFingerprint(graph), GraphFingerprint(SmallGraph()));
}

std::string StepsErrorOf(const std::vector<ScheduleStep>& steps) {
  const TaskGraph graph = SmallGraph();
  const absl::Status status = ValidateSchedule(graph, Of(graph, steps));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

// The plain steps with one more at a place, and with one changed.
std::vector<ScheduleStep> PlainStepsWith(std::size_t at, const ScheduleStep& step) {
  std::vector<ScheduleStep> steps = PlainSteps();
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at), step);
  return steps;
}
std::vector<ScheduleStep> Changed(std::size_t at, const ScheduleStep& step) {
  std::vector<ScheduleStep> steps = PlainSteps();
  steps[at] = step;
  return steps;
}
std::vector<ScheduleStep> Without(std::size_t at) {
  std::vector<ScheduleStep> steps = PlainSteps();
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
  return steps;
}

TEST(ValidateSchedule, TakesWhatCanRun) {
  const TaskGraph graph = SmallGraph();
  EXPECT_TRUE(ValidateSchedule(graph, Of(graph, PlainSteps())).ok());
  // Out and back, twice over, with waits that find nothing to wait for.
  EXPECT_TRUE(
      ValidateSchedule(
          graph,
          Of(graph, {Allocate(kKernel), Await(kKernel),   Prefetch(kKernel), Offload(kKernel),
                     Prefetch(kKernel), Allocate(kBatch), Allocate(kMap),    RunTask(kConv, 1),
                     Offload(kKernel),  Offload(kBatch),  Await(kBatch),     Await(kBatch),
                     Allocate(kScore),  RunTask(kLoss),   Synchronize(),     Prefetch(kBatch),
                     Offload(kBatch),   Prefetch(kBatch), Allocate(kSlope),  Allocate(kStep),
                     RunTask(kBack),    Offload(kMap),    Free(kMap),        Free(kBatch),
                     Offload(kScore),   Await(kScore),    Free(kScore),      Prefetch(kKernel),
                     RunTask(kUpdate),  Free(kSlope),     Free(kStep)}))
          .ok());
}

TEST(ValidateSchedule, RefusesAnotherGraph) {
  const TaskGraph graph = SmallGraph();
  TaskGraph other = graph;
  other.data[kMap].bytes += 1;
  const absl::Status status = ValidateSchedule(other, Of(graph, PlainSteps()));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("expected"), HasSubstr("'small'")));
  EXPECT_EQ(ScheduleTrace(other, Of(graph, PlainSteps())).status(), status);
}

TEST(ValidateSchedule, RefusesNumbersThatAreNone) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(0, {.kind = static_cast<StepKind>(10)})),
            "step 0, unknown: of kind 10, expected one of ten");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(2, Allocate(6))),
            "step 2, allocate 6: no such data, expected a number below 6");
  for (const StepKind kind :
       {StepKind::kFree, StepKind::kOffload, StepKind::kAwait, StepKind::kPrefetch}) {
    EXPECT_THAT(StepsErrorOf(PlainStepsWith(2, {.kind = kind, .index = SIZE_MAX})),
                HasSubstr("no such data, expected a number below 6"));
  }
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(4, RunTask(4))),
            "step 4, run 4: no such task, expected a number below 4");
  EXPECT_EQ(StepsErrorOf(Changed(3, RunTask(kConv, 2))),
            "step 3, run 'conv': algorithm 2, expected a number below 2");
  EXPECT_EQ(StepsErrorOf(Changed(1, Allocate(kBatch, static_cast<Hint>(2)))),
            "step 1, allocate 'batch': hint 2, expected resident or offloadable");
  for (const double density : {-0.5, -2.0, 1.001, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(StepsErrorOf(PlainStepsWith(4, Offload(kMap, density))),
              absl::StrCat("step 4, offload 'map': density ", density, ", expected 0 to 1, or -1"));
  }
}

TEST(ValidateSchedule, RefusesFieldsThatPoolsLack) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(4, {.kind = StepKind::kDrop, .index = kMap})),
            "step 4, drop 'map': a pool gives memory back when an offload is awaited, expected no "
            "drop");
  const std::string expected = ", expected 0, -1 and [0, -1) in the schedule of a pool";
  ScheduleStep step = Offload(kMap);
  step.device = 1;
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(4, step)),
            absl::StrCat("step 4, offload 'map': device 1, offset -1, bytes [0, -1)", expected));
  step = Offload(kMap);
  step.begin = 8;
  step.end = 16;
  EXPECT_THAT(StepsErrorOf(PlainStepsWith(4, step)), HasSubstr(", bytes [8, 16), expected"));
  step = Allocate(kBatch);
  step.offset = 0;
  EXPECT_THAT(StepsErrorOf(Changed(1, step)), HasSubstr("offset 0, bytes"));
}

TEST(ValidateSchedule, RefusesRoundsAndDevicesOfAPool) {
  const TaskGraph graph = SmallGraph();
  Schedule schedule = Of(graph, PlainSteps());
  schedule.devices = 2;
  EXPECT_EQ(ValidateSchedule(graph, schedule),
            absl::InvalidArgumentError("the schedule of a pool has 2 devices and 0 rounds, "
                                       "expected one device and no rounds"));
  schedule.devices = 1;
  schedule.rounds = {{.first_step = 0, .steps = schedule.steps.size()}};
  EXPECT_THAT(std::string(ValidateSchedule(graph, schedule).message()),
              HasSubstr("1 devices and 1 rounds"));
}

TEST(ScheduleTrace, RefusesMemoryThatIsNotAPools) {
  const TaskGraph graph = SmallGraph();
  Schedule schedule = Of(graph, PlainSteps());
  schedule.memory = ScheduleMemory::kFixed;
  EXPECT_EQ(ScheduleTrace(graph, schedule).status(),
            absl::InvalidArgumentError("a trace of requests to a pool takes no schedule with fixed "
                                       "memory, expected one of a pool"));
  EXPECT_EQ(PlanSchedule(graph, schedule, 512, 0).status(),
            ScheduleTrace(graph, schedule).status());
}

TEST(ValidateSchedule, RefusesWrongAllocations) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(4, Allocate(kMap))),
            "step 4, allocate 'map': the data is on the device since step 2, expected one "
            "allocation of all data");
  std::vector<ScheduleStep> steps = PlainStepsWith(4, Offload(kMap));
  steps.insert(steps.begin() + 5, Allocate(kMap));
  EXPECT_THAT(StepsErrorOf(steps),
              HasSubstr("step 5, allocate 'map': the data was sent out at step 4"));
  EXPECT_THAT(StepsErrorOf(PlainStepsWith(15, Allocate(kStep))),
              HasSubstr("the data was freed at step 14, expected one allocation"));
}

TEST(ValidateSchedule, RefusesWrongFrees) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(0, Free(kMap))),
            "step 0, free 'map': the data was not allocated, expected data that is allocated");
  EXPECT_THAT(StepsErrorOf(PlainStepsWith(15, Free(kStep))),
              HasSubstr("the data was freed at step 14"));
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(15, Free(kKernel))),
            "step 15, free 'kernel': of the kind weight, which exists after the iteration, "
            "expected it to "
            "stay");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(6, Free(kMap))),
            "step 6, free 'map': task 'back' needs the data later, expected it to stay");
  EXPECT_THAT(StepsErrorOf(PlainStepsWith(3, Free(kMap))),
              HasSubstr("task 'conv' needs the data later"));
  EXPECT_THAT(StepsErrorOf(PlainStepsWith(4, Free(kBatch))),
              HasSubstr("task 'back' needs the data later"));
}

TEST(ValidateSchedule, RefusesWrongRuns) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(5, RunTask(kConv))),
            "step 5, run 'conv': the task ran at step 3, expected each task once");
  EXPECT_EQ(StepsErrorOf(Without(1)),
            "step 2, run 'conv': data 'batch', which the task uses, was not allocated, expected it "
            "on the device or being fetched");
  EXPECT_THAT(StepsErrorOf(Without(2)),
              HasSubstr("data 'map', which the task writes, was not allocated"));
  EXPECT_THAT(StepsErrorOf(PlainStepsWith(3, Offload(kBatch))),
              HasSubstr("data 'batch', which the task uses, was sent out at step 3"));
  // Data that was waited for is out as well.
  std::vector<ScheduleStep> steps = PlainStepsWith(3, Offload(kBatch));
  steps.insert(steps.begin() + 4, Await(kBatch));
  EXPECT_THAT(StepsErrorOf(steps), HasSubstr("step 5, run 'conv': data 'batch'"));
  EXPECT_EQ(StepsErrorOf({Allocate(kMap), Allocate(kScore), RunTask(kLoss)}),
            "step 2, run 'loss': data 'map' is not ready, expected task 'conv' before");
}

TEST(ValidateSchedule, RefusesOrdersThatUpdatesForbid) {
  TaskGraph graph;
  graph.data = {{"w", 8, DataKind::kWeight}, {"a", 8}, {"b", 8}, {"c", 8}};
  const std::vector<TaskAlgorithm> algorithms = {{"only", 1, 0}};
  graph.tasks = {{.name = "before", .reads = {0}, .writes = {1}, .algorithms = algorithms},
                 {.name = "also", .reads = {0}, .writes = {2}, .algorithms = algorithms},
                 {.name = "change", .reads = {1, 2}, .updates = {0}, .algorithms = algorithms},
                 {.name = "after", .reads = {0}, .writes = {3}, .algorithms = algorithms}};
  const auto validate = [&](const std::vector<std::size_t>& order) {
    std::vector<ScheduleStep> steps = {Allocate(0), Allocate(1), Allocate(2), Allocate(3)};
    for (const std::size_t task : order) steps.push_back(RunTask(task));
    for (const std::size_t data : {1, 2, 3}) steps.push_back(Free(data));
    return ValidateSchedule(graph, Of(graph, steps));
  };
  EXPECT_TRUE(validate({0, 1, 2, 3}).ok());
  EXPECT_TRUE(validate({1, 0, 2, 3}).ok());
  EXPECT_EQ(std::string(validate({3, 0, 1, 2}).message()),
            "step 4, run 'after': data 'w' is not ready, expected task 'before' before");
  EXPECT_EQ(std::string(validate({0, 1, 3, 2}).message()),
            "step 6, run 'after': data 'w' is not ready, expected task 'change' before");
  graph.tasks[2].reads = {};
  EXPECT_EQ(std::string(validate({0, 2, 1, 3}).message()),
            "step 5, run 'change': data 'w' is not ready, expected task 'also' before");
}

TEST(ValidateSchedule, RefusesWrongMoves) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(0, Offload(kMap))),
            "step 0, offload 'map': the data was not allocated, expected data on the device");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(3, Offload(kMap))),
            "step 3, offload 'map': task 'conv' writes the data later, expected data that is "
            "written");
  std::vector<ScheduleStep> steps = PlainStepsWith(4, Offload(kMap));
  steps.insert(steps.begin() + 5, Offload(kMap));
  EXPECT_THAT(StepsErrorOf(steps),
              HasSubstr("the data was sent out at step 4, expected data on the"));
  EXPECT_THAT(StepsErrorOf(PlainStepsWith(15, Offload(kStep))),
              HasSubstr("the data was freed at step 14"));
  for (const StepKind kind : {StepKind::kAwait, StepKind::kPrefetch}) {
    const ScheduleStep step = {.kind = kind, .index = kStep};
    EXPECT_THAT(StepsErrorOf(PlainStepsWith(0, step)),
                HasSubstr("the data was not allocated, expected data that is allocated"));
    EXPECT_THAT(StepsErrorOf(PlainStepsWith(15, step)), HasSubstr("the data was freed at step 14"));
  }
}

TEST(ValidateSchedule, DataAtHomeOnTheHostComesAndGoes) {
  TaskGraph graph = SmallGraph();
  graph.data[kBatch].before = DataHome::kHost;
  graph.data[kKernel].before = graph.data[kKernel].after = DataHome::kHost;
  const auto error_of = [&](const std::vector<ScheduleStep>& steps) {
    return std::string(ValidateSchedule(graph, Of(graph, steps)).message());
  };
  std::vector<ScheduleStep> steps = PlainSteps();
  EXPECT_EQ(error_of(steps),
            "step 0, allocate 'kernel': the data begins on the host, expected a prefetch");
  steps[0] = Prefetch(kKernel);
  steps[1] = Synchronize();
  EXPECT_THAT(error_of(steps), HasSubstr("data 'batch', which the task uses, begins on the host"));
  steps[1] = Prefetch(kBatch);
  EXPECT_THAT(error_of(steps), HasSubstr("weight 'kernel' is on the device since step 0"));
  steps.push_back(Offload(kKernel));
  EXPECT_EQ(error_of(steps), "");
}

TEST(ValidateSchedule, RefusesLooseEnds) {
  constexpr char kExpected[] =
      ", expected all tasks to have run, weights and other data that stays on the device, or "
      "sent out if its home is the host, and the rest freed";
  EXPECT_EQ(StepsErrorOf({}),
            absl::StrCat("after the last step, 0: task 'conv' did not run", kExpected));
  EXPECT_EQ(StepsErrorOf(Without(12)),
            "step 12, free 'slope': task 'update' needs the data later, expected it to stay");
  std::vector<ScheduleStep> steps = PlainSteps();
  steps.resize(12);
  EXPECT_EQ(StepsErrorOf(steps),
            absl::StrCat("after the last step, 11: task 'update' did not run", kExpected));
  EXPECT_EQ(StepsErrorOf(Without(13)),
            absl::StrCat("after the last step, 13: data 'slope' is not freed", kExpected));
  EXPECT_EQ(StepsErrorOf(Changed(14, Offload(kStep))),
            absl::StrCat("after the last step, 14: data 'step' is not freed", kExpected));
  EXPECT_EQ(
      StepsErrorOf(PlainStepsWith(15, Offload(kKernel))),
      absl::StrCat("after the last step, 15: weight 'kernel' was sent out at step 15", kExpected));
}

TEST(ValidateSchedule, WantsWeightsThatNoTaskUses) {
  TaskGraph graph = SmallGraph();
  graph.data.push_back({"statistics", 8, DataKind::kWeight});
  EXPECT_THAT(std::string(ValidateSchedule(graph, Of(graph, PlainSteps())).message()),
              HasSubstr("weight 'statistics' was not allocated, expected"));
}

std::string TextOf(const Trace& trace) {
  std::string text;
  for (const TraceEvent& event : trace.events) {
    const bool begins = event.kind == TraceEvent::Kind::kAllocate;
    absl::StrAppend(&text, event.time, begins ? "+" : "-",
                    std::string(trace.allocation_ids[event.index]), " ");
  }
  return text;
}

TEST(ScheduleTrace, HoldsWhatIsAskedOfAPool) {
  const TaskGraph graph = SmallGraph();
  const Schedule schedule = Of(graph, {Allocate(kKernel), Allocate(kBatch, Hint::kOffloadable),
                                       Allocate(kMap),    RunTask(kConv, 1),
                                       Offload(kBatch),   Offload(kMap),
                                       Prefetch(kMap),    Allocate(kScore),
                                       RunTask(kLoss),    Await(kBatch),
                                       Await(kMap),       Offload(kMap),
                                       Offload(kScore),   Synchronize(),
                                       Prefetch(kBatch),  Prefetch(kScore, Hint::kOffloadable),
                                       Prefetch(kMap),    Allocate(kSlope),
                                       Allocate(kStep),   RunTask(kBack),
                                       Offload(kMap),     Free(kMap),
                                       Offload(kScore),   Await(kScore),
                                       Free(kScore),      Free(kBatch),
                                       RunTask(kUpdate),  Free(kSlope),
                                       Free(kStep)});
  const absl::StatusOr<Trace> trace = ScheduleTrace(graph, schedule);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(TextOf(*trace),
            "0+kernel 1+batch 2+map 3+conv.workspace 3-conv.workspace 7+score 9-batch 13-map "
            "13-score 14+batch 15+score 16+map 17+slope 18+step 19+back.workspace "
            "19-back.workspace 21-map 23-score 25-batch 27-slope 28-step ");
  EXPECT_EQ(trace->allocations[1].hint, Hint::kOffloadable);
  EXPECT_EQ(trace->allocations[3].bytes, 2000);
  EXPECT_EQ(trace->allocations[5].hint, Hint::kResident);
  EXPECT_EQ(trace->allocations[6].hint, Hint::kOffloadable);
}

TEST(ScheduleTrace, RefusesDataThatIsCalledAsAWorkspace) {
  TaskGraph graph = SmallGraph();
  graph.data[kMap].name = "back.workspace";
  const absl::Status status = ScheduleTrace(graph, Of(graph, PlainSteps())).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected"));
}

}  // namespace
}  // namespace tidepool
