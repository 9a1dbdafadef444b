// SPDX-License-Identifier: Apache-2.0
// A host without memory: a pool that is used ends the process, and one that is made is refused.
#include <gtest/gtest.h>

#include <csignal>

#include "tests/bindings/c/fixture.h"
#include "tests/support/own_allocations.h"

namespace tidepool {
namespace {

using testing::allocations_left;

TEST(HostMemoryDeathTest, APoolInUseEndsTheProcess) {
  if (TIDEPOOL_HAS_SANITIZER) GTEST_SKIP() << "a sanitizer has an operator new of its own";
  const auto use = [] {
    const CPool pool("device=host,device_memory=64MiB,budget=32MiB");
    void* address = nullptr;
    allocations_left = 0;
    for (int i = 0; i < 100; ++i) {
      tidepool_allocate(pool.get(), 1000, nullptr, TIDEPOOL_RESIDENT, &address);
    }
  };
  EXPECT_EXIT(use(), ::testing::KilledBySignal(SIGABRT), "tidepool: the host has no memory left");
}

TEST(HostMemoryDeathTest, APoolThatIsMadeIsRefused) {
  if (TIDEPOOL_HAS_SANITIZER) GTEST_SKIP() << "a sanitizer has an operator new of its own";
  tidepool_pool* pool = nullptr;
  allocations_left = 0;
  const tidepool_status status = tidepool_pool_create("device=host", &pool);
  allocations_left = -1;
  EXPECT_EQ(status, TIDEPOOL_OUT_OF_MEMORY);
  EXPECT_EQ(pool, nullptr);
}

}  // namespace
}  // namespace tidepool
