// SPDX-License-Identifier: Apache-2.0
// Names, fingerprints, every error of a schedule, and a trace by hand.
#include "tidepool/training/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/training/schedule/small_schedule.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using namespace testing;  // NOLINT: the words for steps
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Schedule, StepKindsHaveNames) {
  std::vector<std::string> names;
  names.reserve(7);
  for (int kind = 0; kind < 7; ++kind) {
    names.emplace_back(StepKindName(static_cast<StepKind>(kind)));
  }
  EXPECT_THAT(names,
              ElementsAre("allocate", "free", "run", "offload", "prefetch", "synchronize", "drop"));
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
  // Out and back, twice over. Tasks read data that was sent, and data is freed anywhere.
  EXPECT_EQ(
      ValidateSchedule(
          graph,
          Of(graph, {Allocate(kKernel), Offload(kKernel),  Drop(kKernel),     Prefetch(kKernel),
                     Allocate(kBatch),  Allocate(kMap),    RunTask(kConv, 1), Drop(kKernel),
                     Offload(kBatch),   Drop(kBatch),      Allocate(kScore),  Offload(kMap),
                     RunTask(kLoss),    Synchronize(),     Prefetch(kBatch),  Drop(kBatch),
                     Prefetch(kBatch),  Allocate(kSlope),  Allocate(kStep),   RunTask(kBack),
                     Drop(kMap),        Free(kMap),        Free(kBatch),      Offload(kScore, 0.5),
                     Free(kScore),      Prefetch(kKernel), RunTask(kUpdate),  Free(kSlope),
                     Free(kStep)})),
      absl::OkStatus());
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
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(0, {.kind = static_cast<StepKind>(9)})),
            "step 0, unknown: of kind 9, expected one of nine");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(2, Allocate(6))),
            "step 2, allocate 6: no such data, expected a number below 6");
  for (const StepKind kind :
       {StepKind::kFree, StepKind::kOffload, StepKind::kDrop, StepKind::kPrefetch}) {
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
  const std::string expected = ", expected 0, -1 and [0, -1) in the schedule of a pool";
  ScheduleStep step = Offload(kMap);
  step.device = 1;
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(4, step)),
            "step 4, offload 'map': device 1, expected a number below 1");
  step = RunTask(kLoss);
  step.device = kHostDevice;
  EXPECT_EQ(StepsErrorOf(Changed(5, step)),
            absl::StrCat("step 5, run 'loss': device host, offset -1, bytes [0, -1)", expected));
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
            "step 4, allocate 'map': the data was allocated at step 2, expected data without "
            "memory on the device");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(15, Allocate(kStep))),
            "step 15, allocate 'step': the data was freed at step 14, expected a drop of data that "
            "is needed again");
}

TEST(ValidateSchedule, RefusesWrongFrees) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(0, Free(kMap))),
            "step 0, free 'map': the data was not allocated, expected data that is somewhere");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(15, Free(kStep))),
            "step 15, free 'step': the data was freed at step 14, expected data that is somewhere");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(15, Free(kKernel))),
            "step 15, free 'kernel': the home of the data is the device, expected it to stay");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(6, Free(kMap))),
            "step 6, free 'map': task 'back' needs the data later, expected it to stay");
}

TEST(ValidateSchedule, RefusesWrongRuns) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(5, RunTask(kConv))),
            "step 5, run 'conv': the task ran at step 3, expected one run of a task that may not "
            "run again");
  EXPECT_EQ(StepsErrorOf(Without(1)),
            "step 2, run 'conv': data 'batch', which the task reads, was not allocated, expected "
            "all of it on the device");
  EXPECT_EQ(StepsErrorOf(Without(2)),
            "step 2, run 'conv': data 'map', which the task writes, was not allocated, expected "
            "all of it on the device");
  std::vector<ScheduleStep> steps = PlainStepsWith(3, Offload(kBatch));
  steps.insert(steps.begin() + 4, Drop(kBatch));
  EXPECT_EQ(StepsErrorOf(steps),
            "step 5, run 'conv': data 'batch', which the task reads, was dropped at step 4, "
            "expected all of it on the device");
  EXPECT_EQ(StepsErrorOf({Allocate(kMap), Allocate(kScore), RunTask(kLoss)}),
            "step 2, run 'loss': data 'map', which the task reads, is not ready, expected task "
            "'conv' before");
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
            "step 4, run 'after': data 'w', which the task reads, is not ready, expected task "
            "'change' before");
  EXPECT_EQ(std::string(validate({0, 1, 3, 2}).message()),
            "step 6, run 'after': data 'w', which the task reads, is not ready, expected task "
            "'change' before");
  graph.tasks[2].reads = {};
  EXPECT_EQ(std::string(validate({0, 2, 1, 3}).message()),
            "step 5, run 'change': data 'w' is needed unchanged by task 'also', expected that task "
            "before");
}

TEST(ValidateSchedule, RefusesWrongMoves) {
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(0, Offload(kMap))),
            "step 0, offload 'map': bytes [0, 4096) of the data, which was not allocated, are not "
            "all there, expected them on the device");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(3, Offload(kMap))),
            "step 3, offload 'map': the data was allocated at step 2, expected a task to write it "
            "before");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(4, Drop(kMap))),
            "step 4, drop 'map': the last copy of bytes [0, 4096), expected a copy on the host, or "
            "a task that may run again and writes the data");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(4, Prefetch(kMap))),
            "step 4, prefetch 'map': bytes [0, 4096) of the data, which was allocated at step 2, "
            "are not all on the host, expected a copy there");
  EXPECT_EQ(StepsErrorOf(PlainStepsWith(15, Prefetch(kStep))),
            "step 15, prefetch 'step': bytes [0, 512) of the data, which was freed at step 14, are "
            "not all on the host, expected a copy there");
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
  EXPECT_EQ(error_of(steps),
            "step 3, run 'conv': data 'batch', which the task reads, begins on the host, expected "
            "all of it on the device");
  steps[1] = Prefetch(kBatch);
  EXPECT_EQ(error_of(steps),
            "after the last step: data 'kernel' of device 0 was copied in at step 0, expected its "
            "last values on the host alone");
  steps.push_back(Offload(kKernel));
  EXPECT_EQ(error_of(steps),
            "after the last step: data 'kernel' of device 0 was copied out at step 15, expected "
            "its last values on the host alone");
  steps.push_back(Drop(kKernel));
  EXPECT_EQ(error_of(steps), "");
}

TEST(ValidateSchedule, RefusesLooseEnds) {
  EXPECT_EQ(StepsErrorOf({}),
            "after the last step: task 'conv' did not run on device 0, expected all tasks to run");
  EXPECT_EQ(StepsErrorOf(Without(12)),
            "step 12, free 'slope': task 'update' needs the data later, expected it to stay");
  std::vector<ScheduleStep> steps = PlainSteps();
  steps.resize(12);
  EXPECT_EQ(
      StepsErrorOf(steps),
      "after the last step: task 'update' did not run on device 0, expected all tasks to run");
  EXPECT_EQ(StepsErrorOf(Without(13)),
            "after the last step: data 'slope' of device 0 was allocated at step 6, expected it to "
            "be freed");
  EXPECT_EQ(StepsErrorOf(Changed(14, Offload(kStep))),
            "after the last step: data 'step' of device 0 was copied out at step 14, expected it "
            "to be freed");
}

TEST(ValidateSchedule, WantsWeightsThatNoTaskUses) {
  TaskGraph graph = SmallGraph();
  graph.data.push_back({"statistics", 8, DataKind::kWeight});
  EXPECT_EQ(std::string(ValidateSchedule(graph, Of(graph, PlainSteps())).message()),
            "after the last step: data 'statistics' of device 0 was not allocated, expected its "
            "last values on the device");
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
                                       Allocate(kScore),  RunTask(kLoss),
                                       Drop(kBatch),      Drop(kMap),
                                       Prefetch(kBatch),  Prefetch(kMap, Hint::kOffloadable),
                                       Allocate(kSlope),  Allocate(kStep),
                                       RunTask(kBack),    Offload(kScore),
                                       Free(kScore),      Free(kMap),
                                       Free(kBatch),      RunTask(kUpdate),
                                       Free(kSlope),      Free(kStep)});
  const absl::StatusOr<Trace> trace = ScheduleTrace(graph, schedule);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(TextOf(*trace),
            "0+kernel 1+batch 2+map 3+conv.workspace 3-conv.workspace 6+score 8-batch 9-map "
            "10+batch 11+map 12+slope 13+step 14+back.workspace 14-back.workspace 16-score 17-map "
            "18-batch 20-slope 21-step ");
  EXPECT_EQ(trace->allocations[1].hint, Hint::kOffloadable);
  EXPECT_EQ(trace->allocations[3].bytes, 2000);
  // The map is read after its offload, so only the batch and the score leave at once.
  EXPECT_EQ(TextOf(*ScheduleTrace(graph, schedule, Leaving::kAtOnce)),
            "0+kernel 1+batch 2+map 3+conv.workspace 3-conv.workspace 4-batch 6+score 9-map "
            "10+batch 11+map 12+slope 13+step 14+back.workspace 14-back.workspace 15-score 17-map "
            "18-batch 20-slope 21-step ");
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
