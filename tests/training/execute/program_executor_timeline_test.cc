// SPDX-License-Identifier: Apache-2.0
// The executor compared with the simulator: on devices with an exact clock, all
// tasks and copies start and end at the simulated times, and stalls are the simulated ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/rounds.h"
#include "tests/support/virtual_clock_device.h"
#include "tests/training/execute/program_rig.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/model_zoo.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/timeline.h"

namespace tidepool {
namespace {

using testing::FixedProgram;
using testing::PagedProgram;
using testing::RandomPrograms;
using testing::VirtualClock;
using testing::VirtualClockDevice;

// The device gives each copy the whole link.
bool SharesLink(const RandomPrograms& random) {
  return random.schedule.devices > 1 &&
         random.machine.devices[0].link == random.machine.devices[1].link;
}

// Makes all copies raw: the device has no compressor.
void CopyRawBytes(RandomPrograms& random) {
  for (ScheduleStep& step : random.schedule.steps) step.density = -1;
}

class VirtualRig {
 public:
  explicit VirtualRig(const RandomPrograms& random)
      : program_(LowerSchedule(random.graphs, random.schedule, random.machine).value()) {
    std::vector<Device*> devices;
    for (const MachineDevice& device : random.machine.devices) {
      const MachineLink& link = random.machine.links[device.link];
      owned_.push_back(std::make_unique<VirtualClockDevice>(
          testing::VirtualClockOptions{.out_bytes_per_second = link.out_bytes_per_second,
                                       .in_bytes_per_second = link.in_bytes_per_second,
                                       .latency_seconds = link.latency_seconds,
                                       .granularity = testing::HostPageBytes()},
          clock_));
      devices.push_back(owned_.back().get());
    }
    executor_ =
        Executor::Create(devices, random.graphs, random.schedule, random.machine,
                         [this](const TaskLaunch& launch) { return Launch(launch); }, nullptr,
                         {.measures = true, .clock = [this] { return clock_->now(); }})
            .value();
  }

  absl::StatusOr<Timeline> Run() {
    next_ = 0;
    return executor_->Run();
  }
  const Program& program() const { return program_; }

 private:
  // Takes the seconds of the next task of the program: those of the host follow from its rates.
  absl::Status Launch(const TaskLaunch& launch) {
    while (program_.operations[next_].kind != ProgramOperation::Kind::kTask) ++next_;
    VirtualClockDevice& device = *owned_[launch.device == kHostDevice ? 0 : launch.device];
    device.Work(launch.stream, program_.operations[next_++].seconds);
    return absl::OkStatus();
  }

  const Program program_;
  const std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  std::vector<std::unique_ptr<VirtualClockDevice>> owned_;
  std::size_t next_ = 0;
  std::unique_ptr<Executor> executor_;
};

// Compares to a nanosecond, plus the rounding of sums of seconds.
void AssertNear(double actual, double expected, const char* what, std::size_t step) {
  ASSERT_NEAR(actual, expected, 1e-9 * std::max(1.0, expected)) << what << " of step " << step;
}

// Sorts by the order of a step's repetitions, which is that of their starts.
std::vector<TimelineEvent> ByStep(std::vector<TimelineEvent> events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const TimelineEvent& left, const TimelineEvent& right) {
                     return std::tie(left.step, left.start) < std::tie(right.step, right.start);
                   });
  return events;
}

// Returns the stalls that are longer than the rounding of sums of seconds.
std::vector<TimelineStall> LongStalls(const Timeline& timeline) {
  std::vector<TimelineStall> stalls;
  for (const TimelineStall& stall : timeline.stalls) {
    if (stall.seconds > 1e-7) stalls.push_back(stall);
  }
  return stalls;
}

void ExpectSameStalls(const Timeline& actual, const Timeline& expected) {
  const std::vector<TimelineStall> stalls = LongStalls(actual);
  const std::vector<TimelineStall> simulated = LongStalls(expected);
  ASSERT_EQ(stalls.size(), simulated.size());
  for (std::size_t i = 0; i < stalls.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(stalls[i].task, simulated[i].task);
    ASSERT_EQ(stalls[i].reason, simulated[i].reason);
    ASSERT_EQ(stalls[i].data, simulated[i].data);
    ASSERT_EQ(stalls[i].device, simulated[i].device);
    ASSERT_EQ(stalls[i].stream, simulated[i].stream);
    ASSERT_NO_FATAL_FAILURE(AssertNear(stalls[i].start, simulated[i].start, "stall", i));
    ASSERT_NO_FATAL_FAILURE(AssertNear(stalls[i].seconds, simulated[i].seconds, "stall", i));
  }
}

void ExpectSameEvents(const Timeline& actual, const Timeline& expected) {
  const std::vector<TimelineEvent> events = ByStep(actual.events);
  const std::vector<TimelineEvent> simulated = ByStep(expected.events);
  ASSERT_EQ(events.size(), simulated.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    ASSERT_EQ(events[i].step, simulated[i].step);
    ASSERT_EQ(events[i].kind, simulated[i].kind);
    ASSERT_EQ(events[i].index, simulated[i].index);
    ASSERT_EQ(events[i].device, simulated[i].device);
    ASSERT_EQ(events[i].stream, simulated[i].stream);
    ASSERT_EQ(events[i].repetition, simulated[i].repetition);
    ASSERT_NO_FATAL_FAILURE(
        AssertNear(events[i].start, simulated[i].start, "start", events[i].step));
    ASSERT_NO_FATAL_FAILURE(AssertNear(events[i].end, simulated[i].end, "end", events[i].step));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSameStalls(actual, expected));
  AssertNear(actual.seconds, expected.seconds, "all", 0);
  EXPECT_EQ(actual.bytes_out, expected.bytes_out);
  EXPECT_EQ(actual.bytes_in, expected.bytes_in);
}

class ProgramExecutorTimelineTest : public ::testing::TestWithParam<ScheduleMemory> {};

INSTANTIATE_TEST_SUITE_P(Memory, ProgramExecutorTimelineTest,
                         ::testing::Values(ScheduleMemory::kFixed, ScheduleMemory::kPaged),
                         [](const auto& memory) {
                           return std::string(ScheduleMemoryName(memory.param));
                         });

TEST_P(ProgramExecutorTimelineTest, IsTheSimulators) {
  const bool is_fixed = GetParam() == ScheduleMemory::kFixed;
  int two_devices = 0;
  std::size_t stalls = 0;
  for (int i = 0; i < testing::Rounds(600); ++i) {
    SCOPED_TRACE(i);
    const auto seed = static_cast<std::uint64_t>(i);
    RandomPrograms random = is_fixed ? FixedProgram(seed) : PagedProgram(seed);
    if (SharesLink(random)) continue;
    CopyRawBytes(random);
    two_devices += random.schedule.devices > 1 ? 1 : 0;
    VirtualRig rig(random);
    const Timeline simulated = SimulateProgram(random.graphs[0], rig.program());
    for (int iteration = 0; iteration < 2; ++iteration) {
      const absl::StatusOr<Timeline> measured = rig.Run();
      ASSERT_TRUE(measured.ok()) << measured.status();
      ASSERT_NO_FATAL_FAILURE(ExpectSameEvents(*measured, simulated));
      stalls += measured->stalls.size();
    }
  }
  EXPECT_GT(two_devices, testing::Rounds(600) / 40);
  EXPECT_GT(stalls, testing::Rounds(600));
}

// A pool's schedule with the addresses that the pool gives takes the time that is simulated for it.
TEST(PoolExecutorTimelineTest, IsTheSimulators) {
  for (const char* policy : {"vdnn", "vdnn++"}) {
    SCOPED_TRACE(policy);
    RandomPrograms pool(0);
    pool.machine = {};
    pool.graphs = {MakeModel("alexnet", {.batch = 1, .inputs = DataHome::kDevice}).value()};
    TaskGraph& graph = pool.graphs.front();
    for (GraphData& data : graph.data) data.bytes = data.bytes / 4096 + 1;
    for (GraphTask& task : graph.tasks) {
      for (TaskAlgorithm& algorithm : task.algorithms) algorithm.workspace_bytes /= 4096;
    }
    pool.machine.devices.front().memory_bytes = std::int64_t{1} << 20;
    MachineLink& link = pool.machine.links.front();
    link.out_bytes_per_second = link.in_bytes_per_second = 1e6;
    const Schedule schedule =
        MakeSchedule(policy, graph, {.machine = pool.machine}).value().schedule;
    const Timeline simulated = Simulate(graph, schedule, pool.machine).value();
    PlacedSchedule placed = PlaceInPool(graph, schedule, pool.machine).value();
    pool.schedule = std::move(placed.schedule);
    VirtualRig rig(pool);
    for (int iteration = 0; iteration < 2; ++iteration) {
      const absl::StatusOr<Timeline> measured = rig.Run();
      ASSERT_TRUE(measured.ok()) << measured.status();
      ASSERT_EQ(measured->events.size(), simulated.events.size());
      ASSERT_NO_FATAL_FAILURE(AssertNear(measured->seconds, simulated.seconds, "all", 0));
      ASSERT_NO_FATAL_FAILURE(ExpectSameStalls(*measured, simulated));
      EXPECT_EQ(measured->bytes_out, simulated.bytes_out);
      EXPECT_GT(measured->bytes_out, 0);
    }
  }
}

}  // namespace
}  // namespace tidepool
