// SPDX-License-Identifier: Apache-2.0
// The checker of times accepts the simulator's times, and no others: an operation that starts any
// earlier breaks a rule.
#include "tests/support/check_times/check_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/pool_machine.h"
#include "tests/support/rounds.h"
#include "tests/training/schedule/random_program.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using testing::RandomPrograms;
using testing::Rounds;
using ::testing::StartsWith;

double LatestEnd(const std::vector<OperationTimes>& times) {
  double latest = 0;
  for (const OperationTimes& time : times) latest = std::max(latest, time.end);
  return latest;
}

absl::Status Check(const RandomPrograms& random, const std::vector<OperationTimes>& times,
                   double most_seconds) {
  return CheckTimes(random.graphs, random.schedule, random.machine, times,
                    {.most_seconds = most_seconds});
}

TEST(CheckTimesProperty, AcceptsTheTimesOfTheSimulator) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(Rounds(400)); ++seed) {
    const RandomPrograms random(seed);
    ASSERT_EQ(ValidateSchedule(random.graphs, random.schedule), absl::OkStatus()) << seed;
    const std::vector<OperationTimes> times =
        TimeProgram(LowerSchedule(random.graphs, random.schedule, random.machine).value());
    const double seconds = LatestEnd(times);
    ASSERT_EQ(Check(random, times, seconds), absl::OkStatus()) << "seed " << seed;
    ASSERT_EQ(Check(random, times, seconds * 0.999).code(), absl::StatusCode::kDeadlineExceeded)
        << "seed " << seed;
  }
}

// The checker of addresses goes by the order of steps, and planned offsets keep to it. So addresses
// that wait for their last users are never in use twice at any time either.
TEST(CheckTimesProperty, AcceptsPlannedAddresses) {
  int planned = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(Rounds(200)); ++seed) {
    RandomPrograms random(seed);
    const std::vector<std::int64_t> memory(random.schedule.devices, 1 << 20);
    if (random.schedule.memory == ScheduleMemory::kPaged) {
      absl::StatusOr<Schedule> fixed =
          FixAddresses(random.graphs, random.schedule, random.schedule.alignment, memory);
      if (!fixed.ok()) continue;
      random.schedule = *std::move(fixed);
      for (MachineDevice& device : random.machine.devices) device.memory_bytes = 1 << 20;
      ++planned;
    }
    ASSERT_EQ(ValidateAddresses(random.graphs, random.schedule, memory), absl::OkStatus()) << seed;
    const std::vector<OperationTimes> times =
        TimeProgram(LowerSchedule(random.graphs, random.schedule, random.machine).value());
    ASSERT_EQ(Check(random, times, 1e9), absl::OkStatus()) << "seed " << seed;
  }
  EXPECT_GT(planned, 5);
}

// With fixed addresses every operation of the simulator starts as early as the rules allow. (With
// pages it may wait for the granule that is its turn while another one is free.)
TEST(CheckTimesProperty, RefusesAnyOperationThatStartsEarlier) {
  int moved = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(Rounds(300)); ++seed) {
    const RandomPrograms random(seed);
    if (random.schedule.memory != ScheduleMemory::kFixed || random.schedule.devices > 1) continue;
    std::vector<OperationTimes> times =
        TimeProgram(LowerSchedule(random.graphs, random.schedule, random.machine).value());
    for (OperationTimes& time : times) {
      if (time.start == 0) continue;
      const OperationTimes right = time;
      const double early = std::min(right.start, 1e-3);
      time = {right.start - early, right.end - early};
      ASSERT_NE(Check(random, times, 1e9), absl::OkStatus())
          << "seed " << seed << ", operation " << &time - times.data();
      time = right;
      ++moved;
    }
  }
  EXPECT_GT(moved, 500);
}

TEST(CheckTimesProperty, AcceptsOperationsThatStartLater) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(Rounds(300)); ++seed) {
    RandomPrograms random(seed);
    if (random.schedule.devices > 1) continue;
    const Program program = LowerSchedule(random.graphs, random.schedule, random.machine).value();
    std::vector<OperationTimes> times;
    std::vector<double> tails(program.streams.size());
    for (const ProgramOperation& operation : program.operations) {
      double start = tails[operation.stream];
      for (std::uint32_t i = 0; i < operation.waits; ++i) {
        start = std::max(start, times[program.waits[operation.first_wait + i].operation].end);
      }
      if (random.Chance(0.3)) start += static_cast<double>(random.Below(1000)) / 100;
      times.push_back({start, start + operation.seconds});
      tails[operation.stream] = times.back().end;
    }
    ASSERT_EQ(Check(random, times, 1e9), absl::OkStatus()) << "seed " << seed;
  }
}

// Two tasks, the second of which reads the data of the first after it was away.
struct Small {
  Small() {
    graph.name = "small";
    graph.data = {{"map", 4, DataKind::kActivation}, {"score", 4, DataKind::kActivation}};
    graph.tasks = {{.name = "one", .writes = {0}, .algorithms = {{"only", 1, 0}}},
                   {.name = "two", .reads = {0}, .writes = {1}, .algorithms = {{"only", 2, 0}}}};
    schedule.fingerprint = GraphFingerprint(graph);
    schedule.memory = ScheduleMemory::kFixed;
    schedule.alignment = 1;
    schedule.steps = {{.kind = StepKind::kAllocate, .index = 0, .offset = 0},
                      {.kind = StepKind::kRun, .index = 0},
                      {.kind = StepKind::kOffload, .index = 0},
                      {.kind = StepKind::kDrop, .index = 0},
                      {.kind = StepKind::kPrefetch, .index = 0, .offset = 0},
                      {.kind = StepKind::kAllocate, .index = 1, .offset = 4},
                      {.kind = StepKind::kRun, .index = 1},
                      {.kind = StepKind::kFree, .index = 0},
                      {.kind = StepKind::kFree, .index = 1}};
    machine.devices[0].memory_bytes = 8;
    machine.links[0].out_bytes_per_second = machine.links[0].in_bytes_per_second = 1;
  }

  std::string Error(std::vector<OperationTimes> times, double most_seconds = 1e9) const {
    return std::string(CheckTimes(absl::MakeConstSpan(&graph, 1), schedule, machine, times,
                                  {.most_seconds = most_seconds})
                           .message());
  }

  TaskGraph graph;
  Schedule schedule;
  Machine machine;
};

TEST(CheckTimes, NamesTheRuleThatIsBroken) {
  Small small;
  EXPECT_EQ(small.Error({{0, 1}, {1, 5}, {5, 9}, {9, 11}}, 11), "");
  EXPECT_EQ(small.Error({{0, 1}, {1, 5}, {5, 9}, {9, 11}}, 10),
            "step 6, run 'two': ends at 11 seconds, expected at most 10");
  EXPECT_EQ(small.Error({{0, 1}, {0.5, 4.5}, {5, 9}, {9, 11}}),
            "step 2, offload 'map': starts at 0.5 seconds, expected 1 or later because of data "
            "'map'");
  EXPECT_EQ(small.Error({{0, 1}, {1, 5}, {4, 8}, {9, 11}}),
            "step 4, prefetch 'map': starts at 4 seconds, expected 5 or later because of data "
            "'map'");
  EXPECT_EQ(small.Error({{0, 1}, {1, 5}, {5, 9}, {8, 10}}),
            "step 6, run 'two': starts at 8 seconds, expected 9 or later because of data 'map'");
  EXPECT_EQ(small.Error({{0, 1}, {1, 5}, {5, 9}, {9, 12}}),
            "step 6, run 'two': takes 3 seconds, expected 2");
  EXPECT_EQ(small.Error({{0, 1}, {1, 4}, {5, 9}, {9, 11}}),
            "step 2, a copy from 1 to 4 seconds: its link lets 3 seconds of it pass, expected 4");
  EXPECT_EQ(small.Error({{0, 1}, {1, 5}, {5, 9}}),
            "3 times, expected one for each task and copy, 4");
  EXPECT_THAT(small.Error({{-1, 0}, {1, 5}, {5, 9}, {9, 11}}), HasSubstr("ascending times"));
}

TEST(SimulateLowered, TakesOneGraphOrSeveral) {
  const Small small;
  testing::PoolMachine options;
  options.memory() = 8;
  options.SetRate(1);
  const absl::StatusOr<Timeline> timeline = Simulate(small.graph, small.schedule, options);
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->seconds, 11);
  EXPECT_EQ(timeline->resolved, small.schedule);
  options.memory() = 7;
  EXPECT_EQ(Simulate(small.graph, small.schedule, options).status().code(),
            absl::StatusCode::kResourceExhausted);
  const auto graphs = absl::MakeConstSpan(&small.graph, 1);
  const Timeline two = Simulate(graphs, small.schedule, small.machine, {.iterations = 2}).value();
  EXPECT_EQ(two.seconds, 22);
  EXPECT_EQ(two.steady_seconds, 11);
  Schedule other = small.schedule;
  other.fingerprint = 0;
  EXPECT_EQ(Simulate(graphs, other, small.machine).status(), ValidateSchedule(graphs, other));
}

TEST(CheckTimes, CountsMemoryAtAllTimes) {
  Small small;
  const std::vector<OperationTimes> times = {{0, 1}, {1, 5}, {5, 9}, {9, 11}};
  small.machine.devices[0].memory_bytes = 7;
  EXPECT_EQ(
      small.Error(times),
      "step 5, at 9 seconds: 4 bytes more than the 4 in use, expected up to the memory of the "
      "device, 7");
  small.schedule.memory = ScheduleMemory::kPaged;
  for (ScheduleStep& step : small.schedule.steps) step.offset = -1;
  EXPECT_EQ(
      small.Error(times),
      "step 5, at 9 seconds: 4 bytes more than the 4 in use, expected up to the memory of the "
      "device, 7");
}

TEST(CheckTimes, RefusesOtherSchedulesAndMachines) {
  Small small;
  small.machine.devices.clear();
  EXPECT_THAT(small.Error({}), StartsWith("0 devices"));
  small = Small();
  small.schedule.memory = ScheduleMemory::kPool;
  EXPECT_THAT(small.Error({}), HasSubstr("expected a schedule with fixed addresses"));
  small = Small();
  small.schedule.fingerprint = 0;
  EXPECT_THAT(small.Error({}), HasSubstr("fingerprint"));
}

}  // namespace
}  // namespace tidepool
