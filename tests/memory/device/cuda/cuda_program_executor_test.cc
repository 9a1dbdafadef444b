// SPDX-License-Identifier: Apache-2.0
// The executor on CUDA devices, with fixed addresses and with pages: the right bytes, and the same
// after a failure of any call of the runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/memory/device/cuda/stand_in.h"
#include "tests/support/rounds.h"
#include "tests/training/execute/program_rig.h"
#include "tidepool/cuda_device.h"

namespace tidepool {
namespace {

using testing::Enlarge;
using testing::ProgramOf;
using testing::ProgramRig;
using testing::RandomPrograms;

class CudaProgramExecutorTest : public ::testing::TestWithParam<ScheduleMemory> {
 protected:
  CudaProgramExecutorTest() {
    ConfigureStandIn({.granularity = testing::HostPageBytes(), .copy_latency_ns = 20'000});
    for (const int ordinal : {0, 1}) owned_.push_back(*CudaDevice::Create({.ordinal = ordinal}));
  }
  ~CudaProgramExecutorTest() override {
    owned_.clear();
    ConfigureStandIn({});
  }

  // Returns a random schedule, with pages as large as those of the devices.
  RandomPrograms Program(std::uint64_t seed) const {
    RandomPrograms random = ProgramOf(GetParam(), seed);
    const bool has_pages = GetParam() == ScheduleMemory::kPaged;
    Enlarge(random, has_pages ? owned_[0]->granularity() / random.schedule.alignment : 64);
    return random;
  }

  std::vector<Device*> devices() const { return {owned_[0].get(), owned_[1].get()}; }

 private:
  std::vector<std::unique_ptr<CudaDevice>> owned_;
};

TEST_P(CudaProgramExecutorTest, TasksReadTheRightBytes) {
  int two_devices = 0;
  for (int seed = 0; seed < testing::Rounds(100); ++seed) {
    SCOPED_TRACE(seed);
    RandomPrograms random = Program(static_cast<std::uint64_t>(seed));
    two_devices += random.schedule.devices > 1 ? 1 : 0;
    ProgramRig rig(random, devices());
    ASSERT_EQ(rig.Create({.measures = seed % 2 == 0}), absl::OkStatus());
    const auto hashes = rig.Run(2);
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    ASSERT_EQ(*hashes, rig.Expected(2));
  }
  EXPECT_GT(two_devices, testing::Rounds(100) / 10);
  for (Device* const device : devices()) EXPECT_EQ(device->used_bytes(), 0);
}

TEST_P(CudaProgramExecutorTest, ACopyThatFailsEndsTheIterationAndNoMore) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    RandomPrograms random = Program(seed);
    ProgramRig rig(random, devices());
    ASSERT_EQ(rig.Create(), absl::OkStatus());
    const std::vector<std::uint64_t> expected = rig.Expected(1);
    for (int n = 1; n < 100; ++n) {
      cudartHostFailCall("cudaMemcpyAsync", n, cudaErrorLaunchFailure);
      const auto failed = rig.Run(1);
      cudartHostFailCall("cudaMemcpyAsync", 0, cudaErrorLaunchFailure);
      if (failed.ok()) break;
      EXPECT_FALSE(rig.HasQueuedWork());
      EXPECT_THAT(std::string(failed.status().message()),
                  ::testing::ContainsRegex("^step [0-9]+, (offload|prefetch) '"));
      const auto again = rig.Run(1);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(*again, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Memory, CudaProgramExecutorTest,
                         ::testing::Values(ScheduleMemory::kFixed, ScheduleMemory::kPaged),
                         [](const auto& memory) {
                           return std::string(ScheduleMemoryName(memory.param));
                         });

}  // namespace
}  // namespace tidepool
