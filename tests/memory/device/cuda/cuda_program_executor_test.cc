// SPDX-License-Identifier: Apache-2.0
// The executor of fixed addresses on CUDA devices: the right bytes, and the same after a failure of
// any call of the runtime.
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
using testing::FixedProgram;
using testing::ProgramRig;
using testing::RandomPrograms;

class CudaProgramExecutorTest : public ::testing::Test {
 protected:
  CudaProgramExecutorTest() {
    ConfigureStandIn({.copy_latency_ns = 20'000});
    for (const int ordinal : {0, 1}) owned_.push_back(*CudaDevice::Create({.ordinal = ordinal}));
  }
  ~CudaProgramExecutorTest() override {
    owned_.clear();
    ConfigureStandIn({});
  }

  std::vector<Device*> devices() const { return {owned_[0].get(), owned_[1].get()}; }

 private:
  std::vector<std::unique_ptr<CudaDevice>> owned_;
};

TEST_F(CudaProgramExecutorTest, TasksReadTheRightBytes) {
  int two_devices = 0;
  for (int seed = 0; seed < testing::Rounds(100); ++seed) {
    SCOPED_TRACE(seed);
    RandomPrograms random = FixedProgram(static_cast<std::uint64_t>(seed));
    two_devices += random.schedule.devices > 1 ? 1 : 0;
    Enlarge(random, 64);
    ProgramRig rig(random, devices());
    ASSERT_EQ(rig.Create({.measures = seed % 2 == 0}), absl::OkStatus());
    const auto hashes = rig.Run(2);
    ASSERT_TRUE(hashes.ok()) << hashes.status();
    ASSERT_EQ(*hashes, rig.Expected(2));
  }
  EXPECT_GT(two_devices, testing::Rounds(100) / 10);
  for (Device* const device : devices()) EXPECT_EQ(device->used_bytes(), 0);
}

TEST_F(CudaProgramExecutorTest, ACopyThatFailsEndsTheIterationAndNoMore) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    RandomPrograms random = FixedProgram(seed);
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

}  // namespace
}  // namespace tidepool
