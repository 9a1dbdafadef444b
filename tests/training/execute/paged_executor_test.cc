// SPDX-License-Identifier: Apache-2.0
// The executor with pages, beside the tests of all memory (program_executor_test.cc): networks in
// the smallest memory, faults while pages of weights move, and devices that it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "tests/training/execute/first_fit_addresses.h"
#include "tests/training/execute/offload_everything.h"
#include "tests/training/execute/program_rig.h"
#include "tidepool/host_device.h"
#include "tidepool/training/model_zoo.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HostDevices;
using testing::HostPageBytes;
using testing::MovesHomes;
using testing::PagedProgram;
using testing::ProgramRig;
using testing::RandomPrograms;
using Call = HostDevice::Call;

// Gives the device the fewest pages with which the schedule can be lowered.
void TakeSmallestMemory(RandomPrograms& program) {
  std::int64_t& bytes = program.machine.devices.front().memory_bytes;
  const std::int64_t page = program.schedule.alignment;
  std::int64_t too_few = 0;
  std::int64_t enough = std::int64_t{1} << 20;
  while (enough - too_few > 1) {
    const std::int64_t pages = (too_few + enough) / 2;
    bytes = pages * page;
    const bool fits = LowerSchedule(program.graphs, program.schedule, program.machine).ok();
    (fits ? enough : too_few) = pages;
  }
  bytes = enough * page;
}

// A network with a thousandth of its data, in pages. All of it leaves between its uses.
RandomPrograms PagedNetwork(const std::string& name, bool moves_weights) {
  constexpr std::int64_t kDivisor = 1024;
  RandomPrograms program(0);
  program.machine = {};
  program.graphs = {MakeModel(name, {.batch = 1, .inputs = DataHome::kDevice}).value()};
  TaskGraph& graph = program.graphs.front();
  for (GraphData& data : graph.data) data.bytes = data.bytes / kDivisor + 1;
  for (GraphTask& task : graph.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) algorithm.workspace_bytes /= kDivisor;
  }
  const Schedule schedule =
      testing::OffloadEverything(graph, {.moves_weights = moves_weights}).Make();
  program.schedule = schedule::InPages(testing::FirstFitAddresses(graph).Fix(schedule));
  program.schedule.alignment = HostPageBytes();
  TakeSmallestMemory(program);
  return program;
}

TEST(PagedExecutorTest, NetworksReadTheRightBytesInTheSmallestMemory) {
  for (const char* name : {"alexnet", "vgg16", "resnet-50"}) {
    for (const bool moves_weights : {false, true}) {
      SCOPED_TRACE(absl::StrCat(name, moves_weights ? ", weights move" : ""));
      RandomPrograms network = PagedNetwork(name, moves_weights);
      EXPECT_EQ(MovesHomes(network), moves_weights);
      HostDevices devices(1);
      ProgramRig rig(network, devices.all());
      ASSERT_EQ(rig.Create(), absl::OkStatus());
      const std::int64_t memory = network.machine.devices.front().memory_bytes;
      EXPECT_EQ(devices[0].used_bytes(), memory);
      const auto hashes = rig.Run(3);
      ASSERT_TRUE(hashes.ok()) << hashes.status();
      EXPECT_EQ(*hashes, rig.Expected(3));
      const Timeline timeline = rig.RunOnce().value();
      EXPECT_EQ(timeline.pool_bytes, memory);
      rig.Destroy();
      EXPECT_EQ(devices[0].used_bytes(), 0);
      EXPECT_EQ(devices.Count(Call::kReserveAddresses), 1);
      EXPECT_EQ(devices.Count(Call::kReleaseAddresses), 1);
    }
  }
}

// No call for memory is made in an iteration, and between two of them only for weights that move.
TEST(PagedExecutorTest, MapsBetweenIterationsAlone) {
  for (const bool moves_weights : {false, true}) {
    RandomPrograms network = PagedNetwork("alexnet", moves_weights);
    HostDevices devices(1);
    ProgramRig rig(network, devices.all());
    ASSERT_EQ(rig.Create(), absl::OkStatus());
    const auto calls = [&] { return devices.Count(Call::kMap) + devices.Count(Call::kUnmap); };
    const std::int64_t before = calls();
    ASSERT_TRUE(rig.RunOnce().ok());
    EXPECT_EQ(calls(), before);
    ASSERT_TRUE(rig.RunOnce().ok());
    EXPECT_EQ(calls() > before, moves_weights);
    EXPECT_EQ(devices.Count(Call::kMap) - devices.Count(Call::kUnmap), before);
  }
}

// More memory than the schedule uses is not taken.
TEST(PagedExecutorTest, HoldsTheUsedPagesAlone) {
  RandomPrograms network = PagedNetwork("alexnet", /*moves_weights=*/false);
  network.machine.devices.front().memory_bytes = std::int64_t{1} << 40;
  HostDevices devices(1);
  ProgramRig rig(network, devices.all());
  ASSERT_EQ(rig.Create(), absl::OkStatus());
  EXPECT_EQ(rig.RunOnce()->pool_bytes, devices[0].used_bytes());
}

TEST(PagedExecutorTest, ADeviceThatFailsBetweenIterationsStartsAgain) {
  int failures = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    RandomPrograms random = PagedProgram(seed);
    if (!MovesHomes(random) || random.schedule.devices > 1) continue;
    HostDevices devices(1);
    ProgramRig rig(random, devices.all());
    ASSERT_EQ(rig.Create(), absl::OkStatus());
    const std::vector<std::uint64_t> expected = rig.Expected(2);
    for (const Call call : {Call::kUnmap, Call::kMap}) {
      for (std::int64_t n = 1;; n += 1 + n / 4) {
        devices[0].FailCall(call, n);
        const absl::Status status = rig.Run(2).status();
        devices[0].FailCall(call, 0);
        if (status.ok()) break;
        ++failures;
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
        const auto again = rig.Run(2);
        ASSERT_TRUE(again.ok()) << again.status();
        ASSERT_EQ(*again, expected);
      }
    }
    rig.Destroy();
    EXPECT_EQ(devices[0].used_bytes(), 0);
  }
  EXPECT_GT(failures, 40);
}

std::string ErrorOn(Device& device, const RandomPrograms& program, absl::StatusCode code) {
  const LaunchTask launch = [](const TaskLaunch& /*task*/) { return absl::OkStatus(); };
  const absl::Status status = Executor::Create({&device}, program.graphs, program.schedule,
                                               program.machine, launch, nullptr, {})
                                  .status();
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

TEST(PagedExecutorTest, RefusesADeviceWithoutVirtualMemory) {
  const RandomPrograms program = PagedProgram(1);
  const auto device = HostDevice::Create({.granularity = 0}).value();
  EXPECT_THAT(ErrorOn(*device, program, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("has pages, and device 0, host, has no virtual memory"),
                    HasSubstr("--memory-kind fixed")));
}

// The pages of the device count where they are larger.
TEST(PagedExecutorTest, TakesThePagesOfTheDevice) {
  RandomPrograms network = PagedNetwork("alexnet", /*moves_weights=*/true);
  const std::int64_t large = 4 * HostPageBytes();
  const auto device = HostDevice::Create({.granularity = large}).value();
  EXPECT_THAT(ErrorOn(*device, network, absl::StatusCode::kResourceExhausted),
              HasSubstr(absl::StrCat("pages of ", HostPageBytes(),
                                     " bytes, and those of the device have ", large)));
  network.schedule.alignment = 512;
  const Schedule own = WithPagesOf({device.get()}, network.schedule).value();
  EXPECT_EQ(own.alignment, large);
  network.schedule.alignment = large;
  EXPECT_EQ(own, network.schedule);
  TakeSmallestMemory(network);
  network.schedule.alignment = 512;
  ProgramRig rig(network, {device.get()});
  ASSERT_EQ(rig.Create(), absl::OkStatus());
  EXPECT_EQ(device->used_bytes(), network.machine.devices.front().memory_bytes);
  const auto hashes = rig.Run(2);
  ASSERT_TRUE(hashes.ok()) << hashes.status();
  EXPECT_EQ(*hashes, rig.Expected(2));
}

TEST(PagedExecutorTest, TellsBothSizesThatDoNotGoTogether) {
  RandomPrograms network = PagedNetwork("alexnet", /*moves_weights=*/false);
  const auto device = HostDevice::Create({.granularity = 2 * HostPageBytes()}).value();
  network.schedule.alignment = 3 * HostPageBytes();
  EXPECT_THAT(ErrorOn(*device, network, absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr(absl::StrCat("pages of ", 3 * HostPageBytes(), " bytes")),
                    HasSubstr(absl::StrCat("those of device 0 have ", 2 * HostPageBytes()))));
}

// The next iteration would find the weights in pages of other data.
TEST(PagedExecutorTest, RefusesWeightsInPagesThatHadOtherData) {
  RandomPrograms program(0);
  program.machine = {};
  program.graphs = {
      {.name = "late weight",
       .data = {{"in", 1, DataKind::kInput},
                {"map", 1, DataKind::kActivation},
                {"weight", 1, DataKind::kWeight}},
       .tasks = {
           {.name = "first", .reads = {0}, .writes = {1}, .algorithms = {{.name = "only"}}},
           {.name = "second", .reads = {1}, .updates = {2}, .algorithms = {{.name = "only"}}}}}};
  Schedule& schedule = program.schedule = Schedule();
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = HostPageBytes();
  schedule.fingerprint = GraphFingerprint(program.graphs.front());
  const auto add = [&](StepKind kind, std::size_t index) {
    schedule.steps.push_back({.kind = kind, .index = index});
  };
  add(StepKind::kAllocate, 0);
  add(StepKind::kAllocate, 1);
  add(StepKind::kRun, 0);
  add(StepKind::kFree, 0);
  add(StepKind::kAllocate, 2);
  add(StepKind::kRun, 1);
  add(StepKind::kFree, 1);
  program.machine.devices.front().memory_bytes = 2 * HostPageBytes();
  const auto device = HostDevice::Create({.granularity = HostPageBytes()}).value();
  EXPECT_THAT(ErrorOn(*device, program, absl::StatusCode::kInvalidArgument),
              HasSubstr("its pages have had other data, expected its allocation before"));
  program.machine.devices.front().memory_bytes += HostPageBytes();
  EXPECT_EQ(ErrorOn(*device, program, absl::StatusCode::kOk), "");
}

TEST(PagedExecutorTest, RunsNoOtherScheduleWithPages) {
  RandomPrograms network = PagedNetwork("alexnet", /*moves_weights=*/false);
  HostDevices devices(1);
  const LaunchTask launch = [](const TaskLaunch& /*task*/) { return absl::OkStatus(); };
  const auto executor = Executor::Create(devices.all(), network.graphs, network.schedule,
                                         network.machine, launch, nullptr, {})
                            .value();
  const absl::Status status = executor->Reschedule(network.schedule);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("make another executor"));
  EXPECT_TRUE(executor->Run().ok());
}

}  // namespace
}  // namespace tidepool
