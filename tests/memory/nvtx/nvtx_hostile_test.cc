// SPDX-License-Identifier: Apache-2.0
// Tools that refuse, and no tool: each in a process of its own, because NVTX asks once.
#include <memory>

#include "tests/memory/nvtx/fixture.h"
#include "tidepool/cuda_device.h"
#include "tidepool/nvtx_observer.h"
#include "tidepool/pool.h"

namespace tidepool {
namespace {

using nvtx_injection::Look;
using nvtx_injection::Mode;
using nvtx_injection::SetMode;

// Ends the process with status 0 when no observer is made.
[[noreturn]] void ExitWithoutObserver() {
  ConfigureStandIn({});
  const std::unique_ptr<CudaDevice> device = CudaDevice::Create({}).value();
  const bool is_right =
      MakeNvtxObserver(*device) == nullptr && MakeNvtxObserver(*device) == nullptr;
  std::_Exit(is_right ? 0 : 1);
}

// Ends the process with status 0 when a pool works beside a tool that refuses its heap.
[[noreturn]] void ExitAfterRefusedHeap() {
  ConfigureStandIn({});
  const std::unique_ptr<CudaDevice> device = CudaDevice::Create({}).value();
  const std::unique_ptr<PoolObserver> observer = MakeNvtxObserver(*device);
  PoolOptions options{.max_bytes = 1 << 20};
  options.recorder = observer.get();
  std::unique_ptr<Pool> pool = Pool::Create(device.get(), options).value();
  const Stream stream = device->CreateStream().value();
  void* const address = pool->Allocate(1000, stream).value();
  const bool is_freed = pool->Free(address, stream).ok();
  pool.reset();
  const nvtx_injection::Seen seen = Look();
  const bool is_right = observer != nullptr && is_freed && seen.heaps_ever == 1 &&
                        seen.regions_ever == 0 && seen.faults.empty();
  std::_Exit(is_right ? 0 : 1);
}

class NvtxHostileTest : public ::testing::Test {
 protected:
  NvtxHostileTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

using ::testing::ExitedWithCode;

TEST_F(NvtxHostileTest, NoToolMeansNoObserver) {
  EXPECT_EXIT((unsetenv("NVTX_INJECTION64_PATH"), ExitWithoutObserver()), ExitedWithCode(0), "");
}

TEST_F(NvtxHostileTest, AToolThatIsNoFileMeansNoObserver) {
  EXPECT_EXIT((AttachTool("/nowhere/tool.so"), ExitWithoutObserver()), ExitedWithCode(0), "");
}

TEST_F(NvtxHostileTest, AToolWithoutTheExtensionMeansNoObserver) {
  EXPECT_EXIT((AttachTool(TIDEPOOL_NVTX_WITHOUT_MEMORY), ExitWithoutObserver()), ExitedWithCode(0),
              "");
}

TEST_F(NvtxHostileTest, AToolThatTakesNoFunctionsMeansNoObserver) {
  EXPECT_EXIT((AttachTool(TIDEPOOL_NVTX_INJECTION), SetMode(Mode::kTakesNoFunctions),
               ExitWithoutObserver()),
              ExitedWithCode(0), "");
}

TEST_F(NvtxHostileTest, AToolThatRefusesTheExtensionMeansNoObserver) {
  EXPECT_EXIT((AttachTool(TIDEPOOL_NVTX_INJECTION), SetMode(Mode::kRefusesExtension),
               ExitWithoutObserver()),
              ExitedWithCode(0), "");
}

// A region without a heap would change the rights of the whole process.
TEST_F(NvtxHostileTest, ARefusedHeapHasNoRegions) {
  EXPECT_EXIT(
      (AttachTool(TIDEPOOL_NVTX_INJECTION), SetMode(Mode::kRefusesHeaps), ExitAfterRefusedHeap()),
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tidepool
