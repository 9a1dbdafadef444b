// SPDX-License-Identifier: Apache-2.0
// A host without memory: a call of a pool of host memory is served, or the process ends and says
// why.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "lib/memory/pinned/create_pools.h"
#include "tests/memory/pinned/model_device.h"
#include "tests/support/own_allocations.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"

namespace tidepool {
namespace {

using testing::allocations_left;
using testing::kKiB;
using testing::kMiB;
using testing::ModelDevice;

constexpr std::int64_t kMany = 1 << 20;

// Make calls of a pool, of which the allocations of the host fail after some. Return how many there
// were.
std::int64_t PlayPinned(std::int64_t left) {
  ModelDevice device;
  const auto pool =
      PinnedPool::Create(&device, {.max_bytes = 8 * kMiB, .initial_bytes = 0, .may_grow = true})
          .value();
  std::vector<void*> live;
  live.reserve(100);
  allocations_left = left;
  for (int i = 0; i < 60; ++i) {
    live.push_back(pool->Allocate(64 * kKiB).value_or(nullptr));
    if (i % 3 != 2) continue;
    pool->Free(live[live.size() - 2]).IgnoreError();
    live[live.size() - 2] = nullptr;
  }
  pool->AllocateBlocking(16 * kMiB).IgnoreError();
  pool->Free(&device).IgnoreError();
  for (void* const address : live) pool->Free(address).IgnoreError();
  pool->Trim().IgnoreError();
  pool->Reserve(4 * kMiB).IgnoreError();
  const std::int64_t used = left - allocations_left;
  allocations_left = -1;
  return used;
}

std::int64_t PlayPages(std::int64_t left) {
  const auto pool = pinned::CreatePagePool({.max_bytes = 8 * kMiB}, kMiB).value();
  std::vector<void*> live;
  live.reserve(100);
  allocations_left = left;
  for (int i = 0; i < 60; ++i) {
    std::array<void*, 1> page = {};
    pool->Take(absl::MakeSpan(page)).IgnoreError();
    live.push_back(page[0]);
  }
  pool->Return(live).IgnoreError();
  pool->Return(live).IgnoreError();
  pool->Trim(4 * kMiB).IgnoreError();
  pool->Reserve(16 * kMiB).IgnoreError();
  const std::int64_t used = left - allocations_left;
  allocations_left = -1;
  return used;
}

// The process ends by abort(), or no allocation failed.
bool IsWholeOrAborted(int status) {
  return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
         (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

class PinnedHostMemoryDeathTest : public ::testing::TestWithParam<std::int64_t (*)(std::int64_t)> {
};

INSTANTIATE_TEST_SUITE_P(Pools, PinnedHostMemoryDeathTest,
                         ::testing::Values(&PlayPinned, &PlayPages));

TEST_P(PinnedHostMemoryDeathTest, EndsTheProcessWhereACallHasNone) {
  if (TIDEPOOL_HAS_SANITIZER) GTEST_SKIP() << "a sanitizer has an operator new of its own";
  const auto play = GetParam();
  const std::int64_t used = play(kMany);
  ASSERT_GT(used, 4);
  EXPECT_EXIT(play(0), ::testing::KilledBySignal(SIGABRT), "tidepool: the host has no memory left");
  for (std::int64_t left = 1; left < used; left += 1 + used / 40) {
    SCOPED_TRACE(left);
    EXPECT_EXIT((play(left), std::_Exit(0)), IsWholeOrAborted, "");
  }
}

}  // namespace
}  // namespace tidepool
