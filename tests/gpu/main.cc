// SPDX-License-Identifier: Apache-2.0
// Runs the tests on the first GPU. Without a GPU it prints CUDA's error and exits with 77.
#include <gtest/gtest.h>

#include <cstdio>

#include "absl/status/status.h"
#include "tidepool/cuda_device.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto device = tidepool::CudaDevice::Create({}); !device.ok()) {
    std::printf("no GPU: %s\n", device.status().ToString().c_str());
    return absl::IsUnavailable(device.status()) ? 77 : 1;
  }
  return RUN_ALL_TESTS();
}
