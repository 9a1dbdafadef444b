// SPDX-License-Identifier: Apache-2.0
// The executor with real data on host devices: tasks read the same bytes as in a
// plain run in memory, for schedules with drops, tasks that run again, ranges, two devices, tasks
// of the host, and rounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/rounds.h"
#include "tests/training/execute/first_fit_addresses.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/execute/program_rig.h"
#include "tidepool/host_device.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using testing::Enlarge;
using testing::FixedProgram;
using ::testing::HasSubstr;
using testing::HostDevices;
using testing::MovesHomes;
using testing::PagedProgram;
using testing::ProgramRig;
using testing::RandomPrograms;
using testing::Rounds;
using ::testing::StartsWith;
using Call = HostDevice::Call;

// The features that random schedules must show, so that a test cannot become empty unnoticed.
struct Features {
  int drops = 0;
  int reruns = 0;
  int ranges = 0;
  int two_devices = 0;
  int repeated_rounds = 0;
  int host_tasks = 0;
  int moves = 0;  // of weights to other pages
};

void Count(const RandomPrograms& random, Features& features) {
  const Schedule& schedule = random.schedule;
  const auto any = [&](auto is) {
    return std::any_of(schedule.steps.begin(), schedule.steps.end(), is) ? 1 : 0;
  };
  features.drops += any([](const ScheduleStep& step) { return step.kind == StepKind::kDrop; });
  features.ranges += any([](const ScheduleStep& step) { return step.begin > 0; });
  features.host_tasks += any([](const ScheduleStep& step) { return step.device == kHostDevice; });
  std::vector<std::size_t> runs(random.graphs[0].tasks.size() * schedule.devices);
  const std::size_t rounds = std::max<std::size_t>(schedule.rounds.size(), 2) - 1;
  bool reruns = false;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind != StepKind::kRun || step.device == kHostDevice) continue;
    reruns |= ++runs[step.device * random.graphs[0].tasks.size() + step.index] > rounds;
  }
  features.reruns += reruns ? 1 : 0;
  features.two_devices += schedule.devices > 1 ? 1 : 0;
  for (const ScheduleRound& round : schedule.rounds) {
    features.repeated_rounds += round.times > 1 ? 1 : 0;
  }
}

// The parameter is the kind of memory: fixed addresses or pages.
class ProgramExecutorTest : public ::testing::TestWithParam<ScheduleMemory> {
 protected:
  static bool IsFixed() { return GetParam() == ScheduleMemory::kFixed; }
  static RandomPrograms AnyProgram(std::uint64_t seed) {
    return IsFixed() ? FixedProgram(seed) : PagedProgram(seed);
  }
  // Work on its data takes time.
  static RandomPrograms LargeProgram(std::uint64_t seed) {
    RandomPrograms random = AnyProgram(seed);
    if (IsFixed()) Enlarge(random, 64);
    return random;
  }
};

INSTANTIATE_TEST_SUITE_P(Memory, ProgramExecutorTest,
                         ::testing::Values(ScheduleMemory::kFixed, ScheduleMemory::kPaged),
                         [](const auto& memory) {
                           return std::string(ScheduleMemoryName(memory.param));
                         });

TEST_P(ProgramExecutorTest, TasksReadTheRightBytes) {
  Features features;
  const int rounds = Rounds(IsFixed() ? 300 : 120);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    RandomPrograms random = LargeProgram(static_cast<std::uint64_t>(seed));
    Count(random, features);
    features.moves += MovesHomes(random) ? 1 : 0;
    HostDeviceOptions options;
    if (seed % 3 == 0) {
      options.copy_bytes_per_second = 1e8;
      options.copy_latency_ns = 20'000;
    }
    HostDevices devices(random.schedule.devices, options);
    ProgramRig rig(random, devices.all());
    ASSERT_EQ(rig.Create({.measures = seed % 4 == 0}), absl::OkStatus());
    for (std::size_t i = 0; !IsFixed() && i < random.schedule.devices; ++i) {
      EXPECT_LE(devices[i].used_bytes(), random.machine.devices[i].memory_bytes);
    }
    const auto hashes = rig.Run(3);
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    ASSERT_EQ(*hashes, rig.Expected(3));
    rig.Destroy();
    for (std::size_t i = 0; i < random.schedule.devices; ++i) EXPECT_EQ(devices[i].used_bytes(), 0);
  }
  EXPECT_GT(features.drops, rounds / 4);
  EXPECT_GT(features.reruns, rounds / 20);
  EXPECT_GT(features.ranges, rounds / 4);
  EXPECT_GT(features.two_devices, rounds / 8);
  EXPECT_GT(features.repeated_rounds, rounds / 10);
  EXPECT_GT(features.host_tasks, rounds / 20);
  EXPECT_EQ(features.moves > rounds / 20, !IsFixed()) << features.moves;
}

TEST_P(ProgramExecutorTest, AnIterationTakesNoMemoryAndWaitsOnce) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomPrograms random = AnyProgram(seed);
    HostDevices devices(random.schedule.devices);
    ProgramRig rig(random, devices.all());
    ASSERT_EQ(rig.Create(), absl::OkStatus());
    const auto count = [&](std::vector<Call> calls) {
      std::int64_t sum = 0;
      for (const Call call : calls) sum += devices.Count(call);
      return sum;
    };
    std::vector<Call> takes = {Call::kAllocateMemory,     Call::kFreeMemory,
                               Call::kAllocatePinned,     Call::kFreePinned,
                               Call::kRegisterHostMemory, Call::kCreateStream,
                               Call::kCreateEvent,        Call::kCreatePhysical};
    if (!MovesHomes(random)) takes.insert(takes.end(), {Call::kMap, Call::kUnmap});
    const std::vector<Call> waits = {Call::kSynchronizeStream, Call::kSynchronizeEvent,
                                     Call::kQueryEvent};
    const std::int64_t taken = count(takes);
    const std::int64_t waited = count(waits);
    ASSERT_TRUE(rig.Run(2).ok());
    EXPECT_EQ(count(takes), taken);
    EXPECT_EQ(count(waits), waited + 2);
  }
}

// An event is recorded only for a wait of another stream, or for the end.
TEST_P(ProgramExecutorTest, RecordsEventsOnlyForWaits) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomPrograms random = AnyProgram(seed);
    HostDevices devices(random.schedule.devices);
    ProgramRig rig(random, devices.all());
    ASSERT_EQ(rig.Create(), absl::OkStatus());
    ASSERT_TRUE(rig.Run(1).ok());
    EXPECT_LE(devices.Count(Call::kRecordEvent), devices.Count(Call::kWaitEvent)) << seed;
  }
}

TEST_P(ProgramExecutorTest, ATaskThatFailsEndsTheIterationAndNoMore) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RandomPrograms random = LargeProgram(seed);
    HostDevices devices(random.schedule.devices, {.copy_latency_ns = 20'000});
    ProgramRig rig(random, devices.all());
    ASSERT_EQ(rig.Create(), absl::OkStatus());
    const std::vector<std::uint64_t> expected = rig.Expected(2);
    for (std::size_t n = 1; n <= expected.size(); ++n) {
      rig.FailLaunch(n);
      const absl::Status status = rig.Run(2).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_FALSE(rig.HasQueuedWork());
      EXPECT_THAT(std::string(status.message()), StartsWith("step "));
      EXPECT_THAT(std::string(status.message()), HasSubstr(", run '"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("': no kernel"));
      const auto hashes = rig.Run(2);
      ASSERT_TRUE(hashes.ok()) << hashes.status();
      EXPECT_EQ(*hashes, expected);
    }
  }
}

TEST_P(ProgramExecutorTest, ADeviceThatFailsEndsTheIterationAndNoMore) {
  for (std::uint64_t seed = 0; seed < (IsFixed() ? 6 : 2); ++seed) {
    for (const bool measures : {false, true}) {
      RandomPrograms random = AnyProgram(seed);
      HostDevices devices(random.schedule.devices);
      for (std::size_t failing = 0; failing < random.schedule.devices; ++failing) {
        HostDevice& device = devices[failing];
        ProgramRig rig(random, devices.all());
        ASSERT_EQ(rig.Create({.measures = measures}), absl::OkStatus());
        const std::vector<std::uint64_t> expected = rig.Expected(1);
        bool has_failed = true;
        for (std::int64_t n = 1; has_failed; ++n) {
          ASSERT_LT(n, 5000);
          const std::int64_t calls = device.CountCalls(Call::kAny);
          device.FailCall(Call::kAny, n);
          const auto hashes = rig.Run(1);
          has_failed = device.CountCalls(Call::kAny) - calls >= n;
          device.FailCall(Call::kAny, 0);
          EXPECT_EQ(hashes.ok(), !has_failed);
          if (!has_failed) break;
          EXPECT_TRUE(absl::IsUnavailable(hashes.status())) << hashes.status();
          EXPECT_THAT(std::string(hashes.status().message()), HasSubstr("step"));
          EXPECT_FALSE(rig.HasQueuedWork());
          const auto again = rig.Run(1);
          ASSERT_TRUE(again.ok()) << again.status();
          EXPECT_EQ(*again, expected);
        }
      }
    }
  }
}

TEST_P(ProgramExecutorTest, ADeviceThatFailsAtTheCreationGetsAllBack) {
  for (std::uint64_t seed = 0; seed < (IsFixed() ? 10 : 3); ++seed) {
    RandomPrograms random = AnyProgram(seed);
    HostDevices devices(random.schedule.devices);
    for (std::size_t failing = 0; failing < random.schedule.devices; ++failing) {
      bool has_failed = true;
      for (std::int64_t n = 1; has_failed; ++n) {
        ASSERT_LT(n, 5000);
        devices[failing].FailCall(Call::kAny, n);
        ProgramRig rig(random, devices.all());
        const absl::Status status = rig.Create();
        devices[failing].FailCall(Call::kAny, 0);
        has_failed = !status.ok();
        EXPECT_EQ(absl::IsUnavailable(status), has_failed) << status;
        rig.Destroy();
        for (std::size_t i = 0; i < random.schedule.devices; ++i) {
          EXPECT_EQ(devices[i].used_bytes(), 0);
        }
      }
    }
  }
}

TEST(ProgramExecutorErrorsTest, TellsHowMuchMemoryADeviceLacks) {
  RandomPrograms random = FixedProgram(1);
  Enlarge(random, 1 << 16);
  HostDevices devices(random.schedule.devices, {.memory_bytes = 1 << 16});
  ProgramRig rig(random, devices.all());
  const absl::Status status = rig.Create();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes on device 0"));
}

TEST_P(ProgramExecutorTest, ExecutorsRunAtTheSameTime) {
  HostDevices devices(2);
  const auto run = [&](std::uint64_t seed) {
    for (; seed < 40; seed += 4) {
      RandomPrograms random = LargeProgram(seed);
      ProgramRig rig(random, devices.all());
      ASSERT_EQ(rig.Create(), absl::OkStatus());
      const auto hashes = rig.Run(2);
      ASSERT_TRUE(hashes.ok()) << hashes.status();
      EXPECT_EQ(*hashes, rig.Expected(2));
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 4; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(devices[0].used_bytes(), 0);
  EXPECT_EQ(devices[1].used_bytes(), 0);
}

TEST_P(ProgramExecutorTest, TellsTheStepOfEachOperation) {
  RandomPrograms random = AnyProgram(8);
  HostDevices devices(random.schedule.devices);
  ProgramRig rig(random, devices.all());
  std::vector<std::size_t> steps;
  ASSERT_EQ(rig.Create({.on_step = [&](std::size_t step) { steps.push_back(step); }}),
            absl::OkStatus());
  ASSERT_TRUE(rig.Run(1).ok());
  const Program program = LowerSchedule(random.graphs, random.schedule, random.machine).value();
  ASSERT_EQ(steps.size(), program.operations.size());
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], program.operations[i].step);
}

// The next iteration would not find the weights.
TEST(ProgramExecutorErrorsTest, RefusesWeightsThatEndAtOtherAddresses) {
  TaskGraph graph = MakeModel("alexnet", {.batch = 1, .inputs = DataHome::kDevice}).value();
  for (GraphData& data : graph.data) data.bytes = data.bytes / (1 << 16) + 1;
  testing::FirstFitAddresses addresses(graph);
  Schedule schedule =
      addresses.Fix(testing::OffloadEverything(graph, {.moves_weights = true}).Make());
  const auto last =
      std::find_if(schedule.steps.rbegin(), schedule.steps.rend(),
                   [](const ScheduleStep& step) { return step.kind == StepKind::kPrefetch; });
  last->offset = addresses.top();
  HostDevices devices(1);
  Machine machine;
  machine.devices[0].memory_bytes = addresses.top() + graph.data[last->index].bytes;
  const absl::Status status = Executor::Create(devices.all(), {graph}, schedule, machine,
                                               SleepingTasks(&devices[0], graph, 0), nullptr, {})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("offset"));
}

TEST(ProgramExecutorErrorsTest, RefusesWhatItCannotRun) {
  RandomPrograms random = FixedProgram(1);
  HostDevices devices(random.schedule.devices);
  const auto error = [&](std::vector<Device*> on, const LaunchTask& launch) {
    return Executor::Create(on, random.graphs, random.schedule, random.machine, launch, nullptr, {})
        .status();
  };
  const LaunchTask launch = [](const TaskLaunch& /*task*/) { return absl::OkStatus(); };
  EXPECT_EQ(error(devices.all(), launch), absl::OkStatus());
  EXPECT_EQ(error(devices.all(), nullptr).message(),
            "a null pointer, expected devices and a function that launches tasks");
  EXPECT_EQ(error({nullptr, nullptr}, launch).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      error({}, launch).message(),
      absl::StrCat("the executor got 0 devices, and the schedule has ", random.schedule.devices));
  random.schedule.memory = ScheduleMemory::kPool;
  EXPECT_EQ(
      error(devices.all(), launch).message(),
      "the schedule is one of a pool, expected fixed addresses or pages: PlaceInPool gives it "
      "addresses");
}

}  // namespace
}  // namespace tidepool
