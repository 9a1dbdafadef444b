// SPDX-License-Identifier: Apache-2.0
// A host without memory: a call of a pool is served, or the process ends and says why.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/own_allocations.h"

namespace tidepool {
namespace {

using testing::allocations_left;

constexpr std::int64_t kMany = 1 << 20;

// Makes calls of a pool with regions, of which the allocations of the host fail after some.
// Returns how many there were.
std::int64_t Play(const PoolKind& kind, std::int64_t left) {
  const auto device = HostDevice::Create({.memory_bytes = 64 * kMiB}).value();
  const auto pool =
      Pool::Create(device.get(),
                   {.max_bytes = 16 * kMiB, .memory = kind.memory, .remap = kind.remap})
          .value();
  const std::vector<Stream> streams = {device->CreateStream().value(),
                                       device->CreateStream().value()};
  std::vector<void*> live;
  live.reserve(100);
  allocations_left = left;
  for (int i = 0; i < 60; ++i) {
    live.push_back(pool->Allocate(64 * kKiB, streams[i % 2]).value_or(nullptr));
    if (i % 3 == 2) {
      pool->Free(live[live.size() - 2], streams[(i + 1) % 2]).IgnoreError();
      live[live.size() - 2] = nullptr;
    }
  }
  pool->Trim().IgnoreError();
  if (kind.memory == PoolMemory::kVirtual) {
    const absl::StatusOr<Pool*> region = pool->Region("weights");
    if (region.ok()) live.push_back((*region)->Allocate(kMiB, streams[0]).value_or(nullptr));
    pool->PauseRegion("weights", PauseMode::kHost, streams[0]).IgnoreError();
    pool->ResumeRegion("weights", streams[0]).IgnoreError();
  }
  const std::int64_t used = left - allocations_left;
  allocations_left = -1;
  for (void* const address : live) pool->Free(address, streams[0]).IgnoreError();
  return used;
}

// The process ends by abort(), or no allocation failed.
bool IsWholeOrAborted(int status) {
  return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
         (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

class HostMemoryDeathTest : public ::testing::TestWithParam<PoolKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, HostMemoryDeathTest, ::testing::ValuesIn(kPoolKinds),
                         [](const auto& test) { return test.param.name; });

TEST_P(HostMemoryDeathTest, EndsTheProcessWhereACallHasNone) {
  if (TIDEPOOL_HAS_SANITIZER) GTEST_SKIP() << "a sanitizer has an operator new of its own";
  const std::int64_t used = Play(GetParam(), kMany);
  ASSERT_GT(used, 20);
  EXPECT_EXIT(Play(GetParam(), 0), ::testing::KilledBySignal(SIGABRT),
              "tidepool: the host has no memory left");
  for (std::int64_t left = 1; left < used; left += 1 + used / 40) {
    SCOPED_TRACE(left);
    EXPECT_EXIT((Play(GetParam(), left), std::_Exit(0)), IsWholeOrAborted, "");
  }
}

}  // namespace
}  // namespace tidepool
