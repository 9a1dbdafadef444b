// SPDX-License-Identifier: Apache-2.0
// Programs and their times worked out by hand, and every error.
#include "tidepool/training/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Data of one byte, with a granule of one byte: the numbers of the graph below.
constexpr std::size_t kBatch = 0;   // begins on the host
constexpr std::size_t kFirst = 1;   // made by task 0
constexpr std::size_t kSecond = 2;  // made by task 1, of nothing
constexpr std::size_t kThird = 3;   // made by task 2, of the batch and the second

TaskGraph Graph() {
  TaskGraph graph;
  graph.name = "hand";
  graph.data = {{"batch", 1, DataKind::kInput},
                {"first", 1, DataKind::kActivation},
                {"second", 1, DataKind::kActivation},
                {"third", 1, DataKind::kActivation}};
  graph.data[kBatch].before = DataHome::kHost;
  graph.tasks = {
      {.name = "one", .writes = {kFirst}, .algorithms = {{"only", 1, 0}, {"at once", 0}}},
      {.name = "two", .writes = {kSecond}, .algorithms = {{"only", 5, 0}}},
      {.name = "three",
       .reads = {kBatch, kSecond},
       .writes = {kThird},
       .algorithms = {{"only", 1, 0}, {"room", 1, 2}}}};
  return graph;
}

Machine OneByteASecond(std::int64_t memory) {
  Machine machine;
  machine.devices[0].memory_bytes = memory;
  machine.links[0].out_bytes_per_second = machine.links[0].in_bytes_per_second = 1;
  return machine;
}

ScheduleStep Step(StepKind kind, std::size_t index, std::int64_t offset = -1) {
  return {.kind = kind, .index = index, .offset = offset};
}
ScheduleStep On(std::size_t device, ScheduleStep step) {
  step.device = device;
  return step;
}
ScheduleStep Take(std::size_t data, std::int64_t offset = -1) {
  return Step(StepKind::kAllocate, data, offset);
}
ScheduleStep Task(std::size_t task, std::size_t algorithm = 0, std::int64_t offset = -1) {
  ScheduleStep step = Step(StepKind::kRun, task, offset);
  step.algorithm = algorithm;
  return step;
}
ScheduleStep Out(std::size_t data) { return Step(StepKind::kOffload, data); }
ScheduleStep In(std::size_t data, std::int64_t offset = -1) {
  return Step(StepKind::kPrefetch, data, offset);
}
ScheduleStep Gone(std::size_t data) { return Step(StepKind::kDrop, data); }
ScheduleStep Over(std::size_t data) { return Step(StepKind::kFree, data); }

Schedule Paged(std::vector<ScheduleStep> steps, ScheduleMemory memory = ScheduleMemory::kPaged) {
  Schedule schedule;
  schedule.steps = std::move(steps);
  schedule.memory = memory;
  schedule.alignment = 1;
  return schedule;
}

absl::StatusOr<Program> Lower(const TaskGraph& graph, const Schedule& schedule,
                              const Machine& machine, int iterations = 1) {
  return LowerSchedule(absl::MakeConstSpan(&graph, 1), schedule, machine,
                       {.iterations = iterations});
}

// "one on 0: 0 to 1", copies as "out batch on 0".
std::vector<std::string> EventsOf(const TaskGraph& graph, const Timeline& timeline) {
  std::vector<std::string> texts;
  for (const TimelineEvent& event : timeline.events) {
    const bool is_task = event.kind == TimelineEvent::Kind::kTask;
    const std::string name = is_task ? graph.tasks[event.index].name : graph.data[event.index].name;
    const char* kinds[] = {"", "out ", "in "};
    const std::string device = event.device == kHostDevice ? "host" : absl::StrCat(event.device);
    texts.push_back(absl::StrCat(kinds[static_cast<int>(event.kind)], name, " on ", device, ": ",
                                 event.start, " to ", event.end));
  }
  return texts;
}

Timeline SimulatedProgram(const TaskGraph& graph, const Schedule& schedule, const Machine& machine,
                          int iterations = 1) {
  return SimulateProgram(graph, Lower(graph, schedule, machine, iterations).value());
}

// The copy in needs the memory of the first data. It waits for the copy out, not for the end of the
// task that runs meanwhile: Beaumont's optimum, which no schedule of a pool can say.
TEST(Program, CopyInBeginsInTheMiddleOfATaskWhenACopyOutEnds) {
  TaskGraph graph = Graph();
  for (GraphData& data : graph.data) data.bytes = 2;
  const std::vector<std::string> expected = {"one on 0: 0 to 1", "out first on 0: 1 to 3",
                                             "two on 0: 1 to 6", "in batch on 0: 3 to 5",
                                             "three on 0: 6 to 7"};
  // A memory of 5 bytes, so that the batch gets a byte of the first data.
  TaskGraph small = graph;
  small.data[kThird].bytes = 1;
  const Timeline paged =
      SimulatedProgram(small,
                       Paged({Take(kFirst), Task(0), Out(kFirst), Take(kSecond), Task(1),
                              Gone(kFirst), In(kBatch), Take(kThird), Task(2)}),
                       OneByteASecond(5));
  EXPECT_EQ(EventsOf(graph, paged), expected);
  const Timeline fixed =
      SimulatedProgram(graph,
                       Paged({Take(kFirst, 0), Task(0), Out(kFirst), Take(kSecond, 2), Task(1),
                              Gone(kFirst), In(kBatch, 0), Take(kThird, 4), Task(2)},
                             ScheduleMemory::kFixed),
                       OneByteASecond(6));
  EXPECT_EQ(EventsOf(graph, fixed), expected);
  EXPECT_THAT(fixed.stalls, IsEmpty());
  EXPECT_EQ(fixed.peak_device_bytes, 6);
  EXPECT_EQ(fixed.pool_bytes, 6);
  EXPECT_EQ(fixed.bytes_out, 2);
  EXPECT_EQ(fixed.bytes_in, 2);
}

// The peak counts whole granules, so the pool does too, and a part of a granule is no memory.
TEST(Program, FixedAddressesTakeWholeGranules) {
  TaskGraph graph = Graph();
  for (GraphData& data : graph.data) data.bytes = 3;
  Schedule schedule =
      Paged({Take(kFirst, 0), Task(0), Over(kFirst), Take(kSecond, 4), Task(1), In(kBatch, 0),
             Take(kThird, 8), Task(2), Over(kBatch), Over(kSecond), Over(kThird)},
            ScheduleMemory::kFixed);
  schedule.alignment = 4;
  const Timeline timeline = SimulatedProgram(graph, schedule, OneByteASecond(12));
  EXPECT_EQ(timeline.peak_device_bytes, 12);
  EXPECT_EQ(timeline.pool_bytes, 12);
  EXPECT_THAT(std::string(Lower(graph, schedule, OneByteASecond(11)).status().message()),
              HasSubstr("bytes [8, 12) are needed, expected a range in a memory of 11 bytes"));
}

TEST(Program, PagesComeBackInTheOrderOfTheStepsThatGiveThemBack) {
  const TaskGraph graph = Graph();
  // Three bytes of memory: the third data takes the byte of the first, which leaves until 2.
  const Timeline timeline =
      SimulatedProgram(graph,
                       Paged({Take(kFirst), Task(0), Out(kFirst), In(kBatch), Gone(kFirst),
                              Take(kSecond), Task(1), Take(kThird), Task(2)}),
                       OneByteASecond(3));
  EXPECT_THAT(EventsOf(graph, timeline),
              ElementsAre("one on 0: 0 to 1", "in batch on 0: 0 to 1", "out first on 0: 1 to 2",
                          "two on 0: 1 to 6", "three on 0: 6 to 7"));
}

TEST(Program, StallsHaveReasons) {
  const TaskGraph graph = Graph();
  const Timeline timeline = SimulatedProgram(
      graph,
      Paged({Take(kFirst), Task(0), Out(kFirst), Gone(kFirst), Take(kSecond), Task(1),
             Over(kSecond), In(kBatch), Step(StepKind::kSynchronize, 0), Task(0)}),
      OneByteASecond(1));
  ASSERT_EQ(timeline.stalls.size(), 2u);
  EXPECT_EQ(timeline.stalls[0].task, 1u);
  EXPECT_EQ(timeline.stalls[0].start, 1);
  EXPECT_EQ(timeline.stalls[0].seconds, 1);
  EXPECT_EQ(timeline.stalls[0].reason, TimelineStall::Reason::kMemory);
  EXPECT_EQ(timeline.stalls[0].data, kFirst);
  EXPECT_EQ(timeline.stalls[1].start, 7);
  EXPECT_EQ(timeline.stalls[1].reason, TimelineStall::Reason::kSynchronize);
  EXPECT_EQ(timeline.stalls[1].data, kBatch);
}

// Both devices send four bytes, the second one two seconds later.
std::vector<std::string> TwoCopies(bool full_duplex, LinkSharing sharing, double latency = 0) {
  TaskGraph graph = Graph();
  graph.data[kFirst].bytes = 4;
  graph.tasks[0].algorithms[0].seconds = 2;
  Schedule schedule = Paged({On(0, Take(kFirst)), On(0, Task(0, 1)), On(0, Out(kFirst)),
                             On(1, Take(kFirst)), On(1, Task(0, 0)), On(1, Out(kFirst))});
  schedule.devices = 2;
  Machine machine = OneByteASecond(4);
  machine.devices.push_back(machine.devices[0]);
  machine.links[0].full_duplex = full_duplex;
  machine.links[0].sharing = sharing;
  machine.links[0].latency_seconds = latency;
  std::vector<std::string> copies;
  for (const std::string& text : EventsOf(graph, SimulatedProgram(graph, schedule, machine))) {
    if (text.starts_with("out")) copies.push_back(text);
  }
  return copies;
}

TEST(Program, DevicesDivideALinkByEqualParts) {
  // Two bytes alone, two at half the rate; then the other way round.
  for (const bool full_duplex : {false, true}) {
    EXPECT_THAT(TwoCopies(full_duplex, LinkSharing::kEqualParts),
                ElementsAre("out first on 0: 0 to 6", "out first on 1: 2 to 8"));
  }
}

TEST(Program, LatenciesDoNotDivideALink) {
  // Bytes flow from 3 on, and from 5 on.
  EXPECT_THAT(TwoCopies(true, LinkSharing::kEqualParts, 3),
              ElementsAre("out first on 0: 0 to 9", "out first on 1: 2 to 11"));
}

TEST(Program, FirstComersHaveTheLinkAlone) {
  EXPECT_THAT(TwoCopies(true, LinkSharing::kFirstComeFirstServed),
              ElementsAre("out first on 0: 0 to 4", "out first on 1: 4 to 8"));
}

TEST(Program, OneTransferAtATimePutsBothDirectionsInOneStream) {
  const TaskGraph graph = Graph();
  Machine machine = OneByteASecond(3);
  const Schedule schedule = Paged({Take(kFirst), Task(0, 1), Out(kFirst), In(kBatch)});
  EXPECT_THAT(EventsOf(graph, SimulatedProgram(graph, schedule, machine)),
              ElementsAre("one on 0: 0 to 0", "out first on 0: 0 to 1", "in batch on 0: 0 to 1"));
  machine.links[0].full_duplex = false;
  EXPECT_THAT(EventsOf(graph, SimulatedProgram(graph, schedule, machine)),
              ElementsAre("one on 0: 0 to 0", "out first on 0: 0 to 1", "in batch on 0: 1 to 2"));
}

// The batch of the next pass arrives while a task of the last one runs.
TEST(Program, CopiesCrossTheBordersOfRoundsAndIterations) {
  TaskGraph graph = Graph();
  graph.data[kBatch].bytes = 2;
  graph.tasks = {
      {.name = "use", .reads = {kBatch}, .writes = {kFirst}, .algorithms = {{"only", 3, 0}}}};
  Schedule schedule = Paged({In(kBatch), Take(kFirst), Task(0), Over(kBatch), Over(kFirst)});
  schedule.rounds = {{0, 5, 3, 0}};
  const std::vector<std::string> expected = {"in batch on 0: 0 to 2", "use on 0: 2 to 5",
                                             "in batch on 0: 2 to 4", "use on 0: 5 to 8",
                                             "in batch on 0: 5 to 7", "use on 0: 8 to 11"};
  const Timeline rounds = SimulatedProgram(graph, schedule, OneByteASecond(6));
  EXPECT_EQ(EventsOf(graph, rounds), expected);
  EXPECT_EQ(rounds.events.back().repetition, 2u);
  EXPECT_EQ(rounds.steady_seconds, 0);
  schedule.rounds.clear();
  const Timeline iterations = SimulatedProgram(graph, schedule, OneByteASecond(6), 3);
  EXPECT_EQ(EventsOf(graph, iterations), expected);
  EXPECT_EQ(iterations.seconds, 11);
  EXPECT_EQ(iterations.steady_seconds, 3);
}

// The step of a task gives its workspace back, but the task still runs. A copy in takes memory that
// was given back later, and begins beside the task.
TEST(Program, CopyInLeavesTheWorkspaceOfTheRunningTask) {
  TaskGraph graph = Graph();
  for (GraphData& data : graph.data) data.bytes = 2;
  graph.tasks[1].algorithms[0].workspace_bytes = 2;
  std::vector<ScheduleStep> steps = {Take(kFirst), Task(0),    Out(kFirst),  Take(kSecond), Task(1),
                                     Gone(kFirst), In(kBatch), Take(kThird), Task(2)};
  const std::vector<std::string> expected = {"one on 0: 0 to 1", "out first on 0: 1 to 3",
                                             "two on 0: 1 to 6", "in batch on 0: 3 to 5",
                                             "three on 0: 6 to 7"};
  EXPECT_EQ(EventsOf(graph, SimulatedProgram(graph, Paged(steps), OneByteASecond(6))), expected);
  // Without the memory of the first data the copy in waits for the task.
  std::swap(steps[5], steps[6]);
  EXPECT_THAT(EventsOf(graph, SimulatedProgram(graph, Paged(steps), OneByteASecond(6))),
              ::testing::Contains("in batch on 0: 6 to 8"));
}

// Each device sends the gradient of its part of the batch; the host adds them up.
TEST(Program, HostAddsUpGradientsOfAllDevices) {
  TaskGraph graph;
  graph.data = {{"weight", 8, DataKind::kWeight}, {"gradient", 8, DataKind::kWeightGradient}};
  graph.data[0].before = graph.data[0].after = DataHome::kHost;
  graph.tasks = {{.name = "learn", .writes = {1}, .algorithms = {{"only", 1, 0}}},
                 {.name = "update", .reads = {1}, .updates = {0}, .algorithms = {{"only", 9, 0}}}};
  Schedule schedule;
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = 1;
  schedule.devices = 2;
  for (const std::size_t device : {0, 1}) {
    for (ScheduleStep step : {Take(1), Task(0), Out(1)}) schedule.steps.push_back(On(device, step));
  }
  schedule.steps.push_back(On(kHostDevice, Task(1)));
  schedule.steps.push_back(On(0, In(0)));
  Machine machine = OneByteASecond(16);
  machine.devices.push_back(machine.devices[0]);
  machine.devices[1].link = 1;
  machine.links.push_back({.out_bytes_per_second = 2, .in_bytes_per_second = 2});
  machine.host = {.memory_bytes = 24,
                  .cores = 1,
                  .accumulation_bytes_per_second = 4,
                  .update_bytes_per_second = 2};
  const Timeline timeline = SimulatedProgram(graph, schedule, machine);
  EXPECT_THAT(EventsOf(graph, timeline),
              ElementsAre("learn on 0: 0 to 1", "learn on 1: 0 to 1", "out gradient on 0: 1 to 9",
                          "out gradient on 1: 1 to 5", "update on host: 9 to 17",
                          "in weight on 0: 17 to 25"));
  EXPECT_EQ(timeline.compute_seconds, 2);
  EXPECT_EQ(timeline.peak_host_bytes, 24);
  ASSERT_EQ(timeline.further_devices.size(), 1u);
  EXPECT_EQ(timeline.further_devices[0].peak_bytes, 8);
  const std::string json = TimelineJson(graph, timeline);
  for (const char* name : {"\"compute\"", "\"device 1 compute\"", "\"device 1 out\"",
                           "\"host core 0\"", "\"device 1 memory\""}) {
    EXPECT_THAT(json, HasSubstr(name));
  }

  machine.host.memory_bytes = 23;
  EXPECT_EQ(Lower(graph, schedule, machine).status(),
            absl::ResourceExhaustedError("copies on the host take 24 bytes, expected up to the "
                                         "host's memory of 23"));
}

// Waits are those of the device, and only where the order of a stream does not do.
TEST(Program, WaitsNameTheLatestOperationOfEachOtherStream) {
  const TaskGraph graph = Graph();
  const Program program =
      Lower(graph,
            Paged({Take(kFirst, 0), Task(0), Out(kFirst), In(kBatch, 1), Take(kSecond, 2), Task(1),
                   Take(kThird, 3), Task(2, 1, 4), Over(kBatch), In(kBatch, 1)},
                  ScheduleMemory::kFixed),
            OneByteASecond(6))
          .value();
  std::vector<std::string> waits;
  for (const ProgramOperation& operation : program.operations) {
    std::string text = absl::StrCat(operation.step, " on ", operation.stream, ":");
    for (std::uint32_t i = 0; i < operation.waits; ++i) {
      const ProgramWait& wait = program.waits[operation.first_wait + i];
      absl::StrAppend(&text, " ", wait.operation,
                      wait.reason == ProgramWait::Reason::kMemory ? "m" : "d");
    }
    waits.push_back(text);
  }
  EXPECT_THAT(waits, ElementsAre("1 on 0:", "2 on 1: 0d", "3 on 2:", "5 on 0:", "7 on 0: 2d",
                                 "9 on 2: 4m"));
  EXPECT_THAT(program.pool_bytes, ElementsAre(6));
  // Tasks: reads, writes, updates, workspace. Copies: their bytes.
  EXPECT_THAT(program.offsets, ElementsAre(0, -1, 0, 1, 2, -1, 1, 2, 3, 4, 1));
}

TEST(Program, RefusesWhatTheMachineHasNot) {
  const TaskGraph graph = Graph();
  const auto error = [&](const Schedule& schedule, const Machine& machine, int iterations = 1) {
    return std::string(Lower(graph, schedule, machine, iterations).status().message());
  };
  const Machine machine = OneByteASecond(2);
  EXPECT_EQ(error(Paged({Take(kFirst), Take(kSecond), Task(1), Take(kThird)}), machine),
            "step 3, allocate 'third': 1 bytes are needed, and 0 of 2 are free");
  EXPECT_EQ(error(Paged({Take(kFirst, 2)}, ScheduleMemory::kFixed), machine),
            "step 0, allocate 'first': bytes [2, 3) are needed, expected a range in a memory of 2 "
            "bytes");
  EXPECT_EQ(
      error(Paged({}, ScheduleMemory::kPool), machine),
      "the schedule is one of a pool, expected fixed addresses or pages: PlaceInPool gives it "
      "addresses");
  Schedule schedule = Paged({Take(kFirst)});
  schedule.devices = 2;
  EXPECT_EQ(error(schedule, machine),
            "the schedule has 2 devices, expected 1 to those of the machine, 1");
  schedule = Paged({Task(0)});
  schedule.steps[0].stream = 1;
  EXPECT_EQ(error(schedule, machine),
            "step 0, run 'one': compute stream 1, expected a number below 1, those of the machine");
  schedule.steps[0] = On(kHostDevice, Task(0));
  EXPECT_EQ(error(schedule, machine),
            "step 0, run 'one': core 0, expected a number below 0, those of the machine");
  schedule = Paged({Out(kFirst)});
  schedule.steps[0].density = 0.5;
  EXPECT_EQ(error(schedule, machine),
            "step 0, offload 'first': compressed, expected a raw copy of device 0, which has no "
            "compressor");
  schedule = Paged({Task(0)});
  schedule.rounds = {{0, 1, 100'000'000, 0}};
  EXPECT_THAT(error(schedule, machine), HasSubstr("more than 16777216 steps"));
  schedule.rounds = {{0, 1, 1, 7}};
  EXPECT_THAT(error(schedule, machine), HasSubstr("no graph at batch 7"));
  EXPECT_THAT(error(Paged({}), machine, 0), HasSubstr("0 iterations, expected 1 to 1000"));
  Machine slow = machine;
  slow.links[0].in_bytes_per_second = 0.5;
  EXPECT_THAT(error(Paged({}), slow), HasSubstr("link 0: a rate in of 0.5 bytes per second"));
  schedule = Paged({});
  schedule.alignment = 0;
  EXPECT_THAT(error(schedule, machine), HasSubstr("alignment 0"));
}

}  // namespace
}  // namespace tidepool
