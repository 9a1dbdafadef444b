// SPDX-License-Identifier: Apache-2.0
// Pools on the stand-in for the CUDA runtime, with a tool for NVTX attached.
#ifndef TIDEPOOL_TESTS_MEMORY_NVTX_FIXTURE_H_
#define TIDEPOOL_TESTS_MEMORY_NVTX_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/memory/device/cuda/stand_in.h"
#include "tests/support/nvtx_injection/control.h"

namespace tidepool {

// Names the tool that this process loads at its first call of NVTX.
inline void AttachTool(const char* path) { setenv("NVTX_INJECTION64_PATH", path, 1); }

// Expects that no call of a test broke a rule of NVTX, and that no heap is left.
class NvtxFixture : public ::testing::Test {
 protected:
  NvtxFixture() {
    AttachTool(TIDEPOOL_NVTX_INJECTION);
    ConfigureStandIn({});
    nvtx_injection::Reset();
  }
  ~NvtxFixture() override {
    const nvtx_injection::Seen seen = nvtx_injection::Look();
    EXPECT_THAT(seen.faults, ::testing::IsEmpty());
    EXPECT_TRUE(seen.heaps.empty());
    EXPECT_EQ(seen.regions_ever, seen.unregistered_regions + seen.regions_ended_with_heaps);
    EXPECT_EQ(CountLive() - LiveStreams(), 0);
    ConfigureStandIn({});
  }

  static std::int64_t LiveStreams() {
    CudartHostLive live;
    cudartHostCountLive(&live);
    return live.streams;
  }
};

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_MEMORY_NVTX_FIXTURE_H_
