// SPDX-License-Identifier: Apache-2.0
// Waits end in time when the time of day is set meanwhile.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "tests/memory/pool/pool_fixture.h"

namespace {

std::atomic<std::time_t> ahead_seconds = 0;  // of the time of day that this program sees

}  // namespace

// Takes the place of the function of the C library in this program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += ahead_seconds;
  return static_cast<int>(result);
}

namespace tidepool {
namespace {

using TimeOfDayTest = PoolFixture;

TEST_F(TimeOfDayTest, MayBeSetBackDuringAWait) {
  int calls = 0;
  const auto pool = NewPool({.max_bytes = kMiB, .on_out_of_memory = [&calls](const auto&) {
                               ahead_seconds = 0;
                               ++calls;
                               return false;
                             }});
  const Stream stream = NewStream();
  void* const all = pool->Allocate(kMiB, stream).value();
  ahead_seconds = 3600;
  const absl::Time deadline = absl::Now() + absl::Milliseconds(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      pool->AllocateBlocking(1, stream, Hint::kResident, deadline).status()));
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(pool->Free(all, stream).ok());
}

}  // namespace
}  // namespace tidepool
