// SPDX-License-Identifier: Apache-2.0
// The checker of schedules with fixed addresses and pages: examples of each rule and its error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/training/schedule/small_schedule.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: short names of steps

// The convolution may run again; the loss updates nothing either, but may not.
TaskGraph DeviceGraph() {
  TaskGraph graph = SmallGraph();
  graph.tasks[kConv].may_rerun = true;
  graph.data[kBatch].before = DataHome::kHost;
  return graph;
}

ScheduleStep Part(ScheduleStep step, std::int64_t begin, std::int64_t end) {
  step.begin = begin;
  step.end = end;
  return step;
}
ScheduleStep On(ScheduleStep step, std::size_t device) {
  step.device = device;
  return step;
}

// Everything stays.
std::vector<ScheduleStep> Plain() {
  std::vector<ScheduleStep> steps = PlainSteps();
  steps[1] = Prefetch(kBatch);
  return steps;
}
std::vector<ScheduleStep> PlainWith(std::size_t at, const std::vector<ScheduleStep>& more) {
  std::vector<ScheduleStep> steps = Plain();
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at), more.begin(), more.end());
  return steps;
}

Schedule Paged(const TaskGraph& graph, std::vector<ScheduleStep> steps) {
  Schedule schedule = Of(graph, std::move(steps));
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = 8;
  return schedule;
}

absl::Status Validate(const TaskGraph& graph, const std::vector<ScheduleStep>& steps) {
  return ValidateSchedule(graph, Paged(graph, steps));
}
std::string DeviceErrorOf(const std::vector<ScheduleStep>& steps) {
  const absl::Status status = Validate(DeviceGraph(), steps);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(DeviceSchedule, TakesDropsRerunsAndRanges) {
  EXPECT_EQ(Validate(DeviceGraph(), Plain()), absl::OkStatus());
  // The input leaves without a copy, since the host has one; the map is made again.
  EXPECT_EQ(Validate(DeviceGraph(), PlainWith(6, {Drop(kBatch), Drop(kMap), Allocate(kMap),
                                                  Prefetch(kBatch), RunTask(kConv, 1)})),
            absl::OkStatus());
  // Parts of the map leave as they are sent, and come back one by one; a clean copy remains.
  EXPECT_EQ(Validate(DeviceGraph(),
                     PlainWith(6, {Part(Offload(kMap), 0, 1024), Part(Drop(kMap), 0, 1024),
                                   Part(Offload(kMap), 2048, -1), Part(Drop(kMap), 3072, -1),
                                   Part(Prefetch(kMap), 0, 512), Part(Prefetch(kMap), 3072, -1),
                                   Part(Prefetch(kMap), 512, 1024), Part(Drop(kMap), 512, 1024),
                                   Part(Prefetch(kMap), 512, 1024)})),
            absl::OkStatus());
}

TEST(DeviceSchedule, RefusesDropsOfTheLastCopy) {
  EXPECT_EQ(DeviceErrorOf(PlainWith(1, {Drop(kKernel)})),
            "step 1, drop 'kernel': the last copy of bytes [0, 512), expected a copy on the host, "
            "or a task that may run again and writes the data");
  EXPECT_EQ(DeviceErrorOf(PlainWith(6, {Drop(kScore)})),
            "step 6, drop 'score': the last copy of bytes [0, 1), expected a copy on the host, or "
            "a task that may run again and writes the data");
  EXPECT_THAT(DeviceErrorOf(PlainWith(1, {Part(Offload(kKernel), 0, 256), Drop(kKernel)})),
              HasSubstr("the last copy of bytes [0, 512)"));
  // An update makes the copy on the host old.
  EXPECT_THAT(DeviceErrorOf(PlainWith(13, {Drop(kKernel)})), HasSubstr("the last copy"));
  std::vector<ScheduleStep> steps = PlainWith(1, {Offload(kKernel)});
  steps.insert(steps.begin() + 14, Drop(kKernel));
  EXPECT_THAT(DeviceErrorOf(steps), HasSubstr("step 14, drop 'kernel': the last copy"));
}

TEST(DeviceSchedule, RefusesRunsOfDataThatIsAway) {
  EXPECT_EQ(DeviceErrorOf(PlainWith(5, {Drop(kMap)})),
            "step 6, run 'loss': data 'map', which the task reads, was dropped at step 5, "
            "expected all of it on the device");
  EXPECT_THAT(DeviceErrorOf(PlainWith(5, {Drop(kMap), Allocate(kMap)})),
              HasSubstr("step 7, run 'loss': data 'map', which the task reads, is not ready, "
                        "expected task 'conv' before"));
  EXPECT_EQ(DeviceErrorOf(PlainWith(6, {RunTask(kLoss)})),
            "step 6, run 'loss': the task ran at step 5, expected one run of a task that may not "
            "run again");
  EXPECT_EQ(DeviceErrorOf({Allocate(kKernel), Prefetch(kBatch), RunTask(kConv)}),
            "step 2, run 'conv': data 'map', which the task writes, was not allocated, expected "
            "all of it on the device");
}

TEST(DeviceSchedule, RefusesWrongMoves) {
  EXPECT_EQ(DeviceErrorOf({Allocate(kBatch)}),
            "step 0, allocate 'batch': the data begins on the host, expected a prefetch");
  EXPECT_EQ(DeviceErrorOf(PlainWith(3, {Prefetch(kMap)})),
            "step 3, prefetch 'map': bytes [0, 4096) of the data, which was allocated at step 2, "
            "are not all on the host, expected a copy there");
  EXPECT_EQ(DeviceErrorOf(PlainWith(2, {Prefetch(kBatch)})),
            "step 2, prefetch 'batch': bytes [0, 1024) of the data, which was copied in at step "
            "1, are on the device in part, expected that part to leave first");
  EXPECT_EQ(DeviceErrorOf(PlainWith(3, {Offload(kMap)})),
            "step 3, offload 'map': the data was allocated at step 2, expected a task to write it "
            "before");
  EXPECT_EQ(DeviceErrorOf(PlainWith(3, {Allocate(kMap)})),
            "step 3, allocate 'map': the data was allocated at step 2, expected data without "
            "memory on the device");
  EXPECT_EQ(DeviceErrorOf(PlainWith(11, {Allocate(kMap)})),
            "step 11, allocate 'map': the data was freed at step 10, expected a drop of data that "
            "is needed again");
  EXPECT_EQ(DeviceErrorOf(PlainWith(12, {Free(kKernel)})),
            "step 12, free 'kernel': the home of the data is the device, expected it to stay");
  EXPECT_EQ(DeviceErrorOf(PlainWith(6, {Free(kMap)})),
            "step 6, free 'map': task 'back' needs the data later, expected it to stay");
}

TEST(DeviceSchedule, RefusesNumbersOutOfRange) {
  EXPECT_EQ(DeviceErrorOf(PlainWith(6, {On(Offload(kMap), 1)})),
            "step 6, offload 'map': device 1, expected a number below 1");
  EXPECT_EQ(DeviceErrorOf(PlainWith(6, {On(Offload(kMap), kHostDevice)})),
            "step 6, offload 'map': on the host, expected a device");
  EXPECT_EQ(DeviceErrorOf(PlainWith(6, {Part(Offload(kMap), 0, 4104)})),
            "step 6, offload 'map': bytes [0, 4104), expected a range in [0, 4096)");
  EXPECT_THAT(DeviceErrorOf(PlainWith(6, {Part(Offload(kMap), 8, 8)})),
              HasSubstr("bytes [8, 8), expected"));
  EXPECT_THAT(DeviceErrorOf(PlainWith(6, {Part(Offload(kMap), -8, 8)})),
              HasSubstr("bytes [-8, 8)"));
  EXPECT_EQ(DeviceErrorOf(PlainWith(6, {Part(Offload(kMap), 0, 12)})),
            "step 6, offload 'map': bytes [0, 12), expected whole granules of 8");
  ScheduleStep on_a_stream = Offload(kMap);
  on_a_stream.stream = 1;
  EXPECT_EQ(DeviceErrorOf(PlainWith(6, {on_a_stream})),
            "step 6, offload 'map': stream 1, expected 0 for all steps but tasks without a pool");
  EXPECT_THAT(DeviceErrorOf(PlainWith(6, {Part(RunTask(kLoss), 0, 12)})),
              HasSubstr("bytes [0, 12), expected [0, -1)"));
}

TEST(DeviceSchedule, RefusesOffsetsThatAreMissingOrWrong) {
  const TaskGraph graph = DeviceGraph();
  Schedule schedule = Paged(graph, Plain());
  schedule.steps[2].offset = 0;
  EXPECT_EQ(ValidateSchedule(graph, schedule).message(),
            "step 2, allocate 'map': offset 0 of a step that takes no memory at an address, "
            "expected -1");
  schedule.memory = ScheduleMemory::kFixed;
  EXPECT_EQ(ValidateSchedule(graph, schedule).message(),
            "step 0, allocate 'kernel': offset -1, expected a multiple of 8 from 0 to 2^60");
  for (ScheduleStep& step : schedule.steps) {
    const bool takes = step.kind == StepKind::kAllocate || step.kind == StepKind::kPrefetch;
    if (takes) step.offset = 800;
  }
  EXPECT_THAT(std::string(ValidateSchedule(graph, schedule).message()),
              HasSubstr("step 8, run 'back': offset -1, expected"))
      << "it has a workspace";
  schedule.steps[8].offset = 16;
  EXPECT_EQ(ValidateSchedule(graph, schedule), absl::OkStatus());
  schedule.steps.insert(schedule.steps.begin() + 2,
                        {Part(Drop(kBatch), 0, 8), Part(Prefetch(kBatch), 0, 8)});
  schedule.steps[3].offset = 0;
  EXPECT_EQ(ValidateSchedule(graph, schedule).message(),
            "step 3, prefetch 'batch': offset 0 of data with bytes on the device, expected their "
            "offset 800");
}

TEST(DeviceSchedule, RefusesWrongHeaders) {
  const TaskGraph graph = DeviceGraph();
  Schedule schedule = Paged(graph, Plain());
  schedule.devices = 65;
  EXPECT_EQ(ValidateSchedule(graph, schedule).message(), "65 devices, expected 1 to 64");
  schedule.devices = 1;
  schedule.alignment = 24;
  EXPECT_EQ(ValidateSchedule(graph, schedule).message(),
            "alignment 24, expected a power of two up to 1 GiB");
  schedule.alignment = 8;
  schedule.memory = static_cast<ScheduleMemory>(3);
  EXPECT_EQ(ValidateSchedule(graph, schedule).message(),
            "memory of kind 3, expected pool, fixed or paged");
  EXPECT_EQ(ValidateSchedule(absl::Span<const TaskGraph>(), schedule).message(),
            "no graph, expected at least one");
}

TEST(DeviceSchedule, DataEndsAtHome) {
  TaskGraph graph = DeviceGraph();
  EXPECT_EQ(DeviceErrorOf(PlainWith(13, {Offload(kKernel), Drop(kKernel)})),
            "after the last step: data 'kernel' of device 0 was dropped at step 14, expected its "
            "last values on the device");
  graph.data[kKernel].before = graph.data[kKernel].after = DataHome::kHost;
  std::vector<ScheduleStep> steps = Plain();
  steps[0] = Prefetch(kKernel);
  EXPECT_EQ(Validate(graph, steps).message(),
            "after the last step: data 'kernel' of device 0 was copied in at step 0, expected its "
            "last values on the host alone");
  steps.insert(steps.end(), {Offload(kKernel), Drop(kKernel)});
  EXPECT_EQ(Validate(graph, steps), absl::OkStatus());
  steps = Plain();
  steps.pop_back();
  EXPECT_EQ(DeviceErrorOf(steps),
            "after the last step: data 'step' of device 0 was allocated at step 7, expected it to "
            "be freed");
  steps = Plain();
  steps.erase(steps.begin() + 12);
  EXPECT_THAT(DeviceErrorOf(steps), HasSubstr("'update' needs the data later"));
}

// Returns a DeviceGraph in which the update does not read the slope, which is that of one round.
TaskGraph RoundGraph() {
  TaskGraph graph = DeviceGraph();
  graph.tasks[kUpdate].reads = {kStep};
  graph.tasks[kBack].writes = {kStep};
  graph.tasks[kLoss].writes = {kScore, kSlope};
  graph.tasks[kBack].reads = {kBatch, kMap, kScore, kSlope};
  return graph;
}

std::string RoundError(const Schedule& schedule) {
  return std::string(ValidateSchedule(RoundGraph(), schedule).message());
}

Schedule RoundSchedule() {
  const TaskGraph graph = RoundGraph();
  const auto round = [](std::vector<ScheduleStep> before, std::vector<ScheduleStep> after) {
    std::vector<ScheduleStep> steps = std::move(before);
    for (const ScheduleStep& step :
         {Prefetch(kBatch), Allocate(kMap), RunTask(kConv), Allocate(kScore), Allocate(kSlope),
          RunTask(kLoss), RunTask(kBack), Free(kBatch), Free(kMap), Free(kScore), Free(kSlope)}) {
      steps.push_back(step);
    }
    steps.insert(steps.end(), after.begin(), after.end());
    return steps;
  };
  const std::vector<ScheduleStep> first = round({Allocate(kKernel), Allocate(kStep)}, {});
  const std::vector<ScheduleStep> middle = round({}, {});
  const std::vector<ScheduleStep> last = round({}, {RunTask(kUpdate), Free(kStep)});
  Schedule schedule = Paged(graph, first);
  schedule.steps.insert(schedule.steps.end(), middle.begin(), middle.end());
  schedule.steps.insert(schedule.steps.end(), last.begin(), last.end());
  schedule.rounds = {{0, 13}, {13, 11, 1000}, {24, 13}};
  return schedule;
}

TEST(DeviceSchedule, RoundsAddUpGradients) {
  EXPECT_EQ(RoundError(RoundSchedule()), "");
  Schedule schedule = RoundSchedule();
  schedule.rounds[0].times = 2;
  EXPECT_EQ(RoundError(schedule),
            "after step 12, the end of round 0: data 'kernel' of device 0 is not where it was "
            "before the round, which runs 2 times, expected the same bytes, version and offset");
  schedule = RoundSchedule();
  schedule.rounds[2].times = 2;
  EXPECT_EQ(RoundError(schedule),
            "step 35, run 'update': an update in round 2 of 3, which runs 2 times, expected "
            "updates once, in the last round");
  // The sum of the first rounds is lost.
  schedule = RoundSchedule();
  schedule.steps.insert(schedule.steps.begin() + 24, {Drop(kStep), Allocate(kStep)});
  schedule.rounds[2].steps += 2;
  EXPECT_THAT(RoundError(schedule), HasSubstr("step 24, drop 'step': the last copy"));
  schedule.steps.insert(schedule.steps.begin() + 24, Offload(kStep));
  ++schedule.rounds[2].steps;
  EXPECT_EQ(RoundError(schedule),
            "step 38, run 'update': data 'step' lacks the gradients of the first 1001 rounds, "
            "expected the sum of all rounds");
  schedule.steps[26] = Prefetch(kStep);
  EXPECT_EQ(RoundError(schedule), "");
}

TEST(DeviceSchedule, RoundsHaveDataOfTheirOwn) {
  Schedule schedule = RoundSchedule();
  schedule.steps.erase(schedule.steps.begin() + 23);
  schedule.rounds[1].steps = 10;
  schedule.rounds[2].first_step = 23;
  EXPECT_EQ(RoundError(schedule),
            "after step 22, the end of round 1: data 'slope' of device 0 was allocated at step 17, "
            "expected it to be freed: the next round has data of its own");
  schedule = RoundSchedule();
  schedule.rounds[1].steps = 12;
  EXPECT_EQ(RoundError(schedule),
            "round 2: 13 steps from step 24, expected steps from 25 to at "
            "most 37");
  schedule.rounds[1].steps = 11;
  schedule.rounds.pop_back();
  EXPECT_EQ(RoundError(schedule), "the rounds have 24 steps, expected all 37 of the schedule");
  schedule = RoundSchedule();
  schedule.rounds[1].times = 0;
  EXPECT_EQ(RoundError(schedule), "round 1: 0 times, expected 1 to 1000000000");
  schedule = RoundSchedule();
  schedule.rounds[1].batch = 7;
  EXPECT_EQ(RoundError(schedule),
            "round 1: no graph at batch 7, expected the batch of a graph, or 0 for that of the "
            "first");
}

TEST(DeviceSchedule, RoundsMayHaveOtherBatches) {
  std::vector<TaskGraph> graphs = {RoundGraph(), RoundGraph()};
  graphs[1].batch = 7;
  for (const std::size_t data : {kBatch, kMap, kScore, kSlope}) graphs[1].data[data].bytes *= 7;
  Schedule schedule = RoundSchedule();
  schedule.rounds[2].batch = 7;
  EXPECT_EQ(ValidateSchedule(graphs, schedule), absl::OkStatus());
  graphs[1].data[kStep].bytes *= 7;
  EXPECT_EQ(ValidateSchedule(graphs, schedule).message(),
            "after step 23, the end of round 2: data 'step' has 512 bytes before and 3584 after "
            "it, expected one size of data that stays");
  graphs[1].data[kStep].name = "stop";
  EXPECT_EQ(ValidateSchedule(graphs, schedule).message(),
            "the graph at batch 7 has other tasks or data than that at batch 1, expected graphs "
            "of one family");
}

TEST(DeviceSchedule, TheHostRunsUpdatesAlone) {
  const TaskGraph graph = RoundGraph();
  Schedule schedule = RoundSchedule();
  ASSERT_EQ(schedule.steps[4].kind, StepKind::kRun);
  schedule.steps[4].device = kHostDevice;
  EXPECT_EQ(
      ValidateSchedule(graph, schedule).message(),
      "step 4, run 'conv': the host runs it, expected a device: only updates run on the host");
}

TEST(DeviceSchedule, SeveralDevicesUpdateOnTheHost) {
  const TaskGraph graph = RoundGraph();
  Schedule schedule = RoundSchedule();
  schedule.devices = 2;
  schedule.rounds = {};
  std::vector<ScheduleStep> steps;
  for (const std::size_t device : {0, 1}) {
    for (std::size_t i = 0; i < 13; ++i) steps.push_back(On(schedule.steps[i], device));
    steps.push_back(On(Offload(kStep), device));
    steps.push_back(On(Drop(kStep), device));
  }
  const std::size_t update = steps.size() + 1;
  steps.insert(steps.end(), {Offload(kKernel), On(RunTask(kUpdate), kHostDevice), Drop(kKernel),
                             On(Drop(kKernel), 1), Prefetch(kKernel), On(Prefetch(kKernel), 1),
                             Free(kStep), On(Free(kStep), 1)});
  schedule.steps = steps;
  EXPECT_EQ(ValidateSchedule(graph, schedule), absl::OkStatus());
  schedule.steps[update].device = 1;
  EXPECT_EQ(
      ValidateSchedule(graph, schedule).message(),
      "step 31, run 'update': data 'step', which the task reads, was dropped at step 29, expected "
      "all of it on the device");
  schedule.steps = steps;
  schedule.steps.erase(schedule.steps.begin() + static_cast<std::ptrdiff_t>(update) + 4);
  EXPECT_EQ(ValidateSchedule(graph, schedule).message(),
            "after the last step: data 'kernel' of device 1 was dropped at step 33, expected its "
            "last values on the device");
  schedule.steps = steps;
  schedule.steps[3].device = 1;
  EXPECT_EQ(ValidateSchedule(graph, schedule).message(),
            "step 4, run 'conv': data 'map', which the task writes, was not allocated, expected "
            "all of it on the device");
}

}  // namespace
}  // namespace tidepool
