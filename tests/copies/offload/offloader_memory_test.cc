// SPDX-License-Identifier: Apache-2.0
// Shortage of memory: allocations that wait for copies, allocations that cannot succeed, and a full
// host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/copies/offload/offloader_fixture.h"
#include "tests/support/rounds.h"

namespace tidepool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

OffloaderFixtureOptions Small(OffloaderOptions::Release release, bool compresses = false) {
  OffloaderFixtureOptions options;
  options.pool_bytes = 256 * kKiB;
  options.release = release;
  options.compresses = compresses;
  return options;
}

class OffloaderMemoryTest
    : public ::testing::TestWithParam<std::tuple<OffloaderOptions::Release, bool>> {
 protected:
  // Waits until the request sleeps, or waits for the copy that gives memory back.
  void AwaitBlocked(const std::future<absl::StatusOr<BufferId>>& allocation, std::int64_t waits) {
    const bool is_sleeping = std::get<0>(GetParam()) == kWhenOut || std::get<1>(GetParam());
    while (is_sleeping
               ? fixture_.pool().Stats().failures < waits
               : fixture_.device().CountCalls(HostDevice::Call::kSynchronizeEvent) < waits) {
      ASSERT_NE(allocation.wait_for(std::chrono::seconds(0)), std::future_status::ready);
      std::this_thread::yield();
    }
  }
  std::future<absl::StatusOr<BufferId>> Allocate(std::int64_t bytes,
                                                 absl::Time deadline = absl::InfiniteFuture()) {
    return std::async(std::launch::async, [=, this] {
      return offloader_.Allocate(static_cast<std::size_t>(bytes), fixture_.stream(),
                                 Hint::kResident, "wanted", deadline);
    });
  }

  OffloaderFixture fixture_{Small(std::get<0>(GetParam()), std::get<1>(GetParam()))};
  Offloader& offloader_ = fixture_.offloader();
};
INSTANTIATE_TEST_SUITE_P(Ways, OffloaderMemoryTest,
                         ::testing::Combine(::testing::Values(kWhenOut, kWhenAwaited),
                                            ::testing::Bool()));

// With kWhenOut a waiting request is woken; with kWhenAwaited it waits for a copy itself.
class OffloaderMemoryWhenOutTest : public OffloaderMemoryTest {};
INSTANTIATE_TEST_SUITE_P(Ways, OffloaderMemoryWhenOutTest,
                         ::testing::Combine(::testing::Values(kWhenOut), ::testing::Bool()));

TEST_P(OffloaderMemoryTest, WaitsForCopies) {
  const BufferId first = fixture_.New(128 * kKiB, 1);
  const BufferId second = fixture_.New(128 * kKiB, 2);
  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(first).ok());
  ASSERT_TRUE(fixture_.Send(second).ok());
  // Needs the memory of both.
  auto allocation = Allocate(256 * kKiB);
  AwaitBlocked(allocation, 1);
  fixture_.device().ReleaseCopies();
  const absl::StatusOr<BufferId> third = allocation.get();
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(fixture_.State(first), BufferState::kOut);
  EXPECT_EQ(fixture_.State(second), BufferState::kOut);
  EXPECT_EQ(offloader_.Stats().blocked, 1);
  // A prefetch waits as well, and brings the contents back.
  ASSERT_TRUE(fixture_.Send(*third).ok());
  ASSERT_TRUE(offloader_.Prefetch(second, fixture_.stream()).ok());
  EXPECT_TRUE(fixture_.Holds(second, 128 * kKiB, 2));
  ASSERT_TRUE(offloader_.Prefetch(first, fixture_.stream()).ok());
  EXPECT_TRUE(fixture_.Holds(first, 128 * kKiB, 1));
}

// The pool rounds sizes up, so a buffer gives back more memory than it requested.
TEST_P(OffloaderMemoryTest, WaitsForMemoryThatJustSufficesRoundedUp) {
  const BufferId buffer = fixture_.New(256 * kKiB - 100, 1);
  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  auto allocation = Allocate(256 * kKiB);
  AwaitBlocked(allocation, 1);
  fixture_.device().ReleaseCopies();
  const absl::StatusOr<BufferId> whole = allocation.get();
  ASSERT_TRUE(whole.ok()) << whole.status();
}

TEST_P(OffloaderMemoryTest, FailsAtOnceWhenNothingIsGoingOut) {
  fixture_.New(100 * kKiB, 1, "large");
  fixture_.New(50 * kKiB, 1, "medium");
  for (int i = 0; i < 5; ++i) fixture_.New(4 * kKiB, 1, "small");
  const absl::Status status =
      offloader_.Allocate(200 * kKiB, fixture_.stream(), Hint::kResident, "wanted").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("too little device memory for 200.0 KiB (204800 bytes) of 'wanted'"),
            HasSubstr("only 0 bytes are going out"),
            HasSubstr("the largest of 7 buffers on the device: buffer 'large' (100.0 KiB, on "
                      "the device), buffer 'medium' (50.0 KiB, on the device), buffer "
                      "'small' (4.0 KiB, on the device)")));
  // The error names at most five buffers.
  const std::string text(status.message());
  std::size_t small = 0;
  for (std::size_t at = text.find("'small'"); at != std::string::npos;
       at = text.find("'small'", at + 1)) {
    ++small;
  }
  EXPECT_EQ(small, 3);
  EXPECT_EQ(offloader_.Stats().blocked, 0);
  EXPECT_EQ(offloader_.Allocate(std::size_t{1} << 63U, fixture_.stream()).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_P(OffloaderMemoryTest, FailsAtOnceWhenLeavingMemoryDoesNotSuffice) {
  const BufferId leaves = fixture_.New(64 * kKiB, 1, "leaves");
  const BufferId stays = fixture_.New(128 * kKiB, 1, "stays");
  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(leaves).ok());
  const absl::Status status = offloader_.Allocate(192 * kKiB, fixture_.stream()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("64.0 KiB (65536 bytes) are going out"), HasSubstr("(64.0 KiB, going out)")));
  // Memory of a buffer that is out does not help either: its prefetch fails.
  fixture_.device().ReleaseCopies();
  ASSERT_TRUE(offloader_.Await(leaves).ok());
  fixture_.New(64 * kKiB, 1);
  fixture_.New(64 * kKiB, 1);
  EXPECT_EQ(offloader_.Prefetch(leaves, fixture_.stream()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fixture_.State(leaves), BufferState::kOut);
  ASSERT_TRUE(offloader_.Free(stays).ok());
  ASSERT_TRUE(offloader_.Prefetch(leaves, fixture_.stream()).ok());
  EXPECT_TRUE(fixture_.Holds(leaves, 64 * kKiB, 1));
}

// No request waits for memory that will not come.
TEST_P(OffloaderMemoryWhenOutTest, FailsWhenTheLeavingBufferStays) {
  const BufferId buffer = fixture_.New(256 * kKiB, 1);
  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  auto allocation = Allocate(kKiB);
  AwaitBlocked(allocation, 1);
  ASSERT_TRUE(offloader_.Prefetch(buffer, fixture_.stream()).ok());
  EXPECT_EQ(allocation.get().status().code(), absl::StatusCode::kResourceExhausted);
  fixture_.device().ReleaseCopies();
}

TEST_P(OffloaderMemoryWhenOutTest, AFreeIsAsGoodAsACopy) {
  const BufferId leaves = fixture_.New(128 * kKiB, 1);
  const BufferId stays = fixture_.New(128 * kKiB, 2);
  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(leaves).ok());
  auto allocation = Allocate(128 * kKiB);
  AwaitBlocked(allocation, 1);
  ASSERT_TRUE(offloader_.Free(stays).ok());
  EXPECT_TRUE(allocation.get().ok());
  EXPECT_EQ(fixture_.State(leaves), BufferState::kGoingOut);
  fixture_.device().ReleaseCopies();
}

TEST_P(OffloaderMemoryTest, ServesRequestsInTheirOrder) {
  const BufferId buffer = fixture_.New(192 * kKiB, 1);
  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  auto first = Allocate(256 * kKiB);
  AwaitBlocked(first, 1);
  // There is enough memory for this request, but it waits for its turn.
  auto second = Allocate(kKiB, absl::Now() + absl::Milliseconds(20));
  EXPECT_EQ(second.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  auto third = Allocate(kKiB);
  fixture_.device().ReleaseCopies();
  ASSERT_TRUE(first.get().ok());
  // The first request took all memory.
  EXPECT_EQ(third.get().status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(OffloaderMemoryTest, WaitsUntilTheDeadline) {
  const BufferId out = fixture_.New(kKiB, 2);
  ASSERT_TRUE(fixture_.Send(out).ok());
  ASSERT_TRUE(offloader_.Await(out).ok());
  const BufferId buffer = fixture_.New(256 * kKiB, 1);
  fixture_.device().HoldCopies();
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  for (const absl::Time deadline : {absl::InfinitePast(), absl::Now() + absl::Milliseconds(2)}) {
    const absl::Status status =
        offloader_.Allocate(kKiB, fixture_.stream(), Hint::kResident, "late", deadline).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'late' until the deadline"), HasSubstr("wait longer")));
  }
  EXPECT_EQ(
      offloader_.Prefetch(out, fixture_.stream(), Hint::kResident, absl::InfinitePast()).code(),
      absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(fixture_.State(out), BufferState::kOut);
  fixture_.device().ReleaseCopies();
  EXPECT_TRUE(offloader_
                  .Allocate(kKiB, fixture_.stream(), Hint::kResident, "late",
                            absl::Now() + absl::Minutes(5))
                  .ok());
}

TEST_P(OffloaderMemoryTest, KeepsMemoryUntilItIsAskedFor) {
  const BufferId buffer = fixture_.New(64 * kKiB, 1);
  ASSERT_TRUE(fixture_.Send(buffer).ok());
  ASSERT_TRUE(fixture_.device().SynchronizeStream(offloader_.out_stream()).ok());
  if (std::get<0>(GetParam()) == kWhenAwaited) {
    EXPECT_EQ(fixture_.State(buffer), BufferState::kGoingOut);
    EXPECT_EQ(fixture_.pool().Stats().live_bytes, 64 * kKiB);
    ASSERT_TRUE(offloader_.Synchronize().ok());
  } else {
    while (fixture_.State(buffer) != BufferState::kOut) std::this_thread::yield();
  }
  EXPECT_EQ(fixture_.pool().Stats().live_bytes, 0);
}

TEST(OffloaderHostTest, AFullHostKeepsBuffersOnTheDevice) {
  for (const auto release : {kWhenOut, kWhenAwaited}) {
    OffloaderFixtureOptions options = Small(release);
    options.host_bytes = 64 * kKiB;
    OffloaderFixture fixture(options);
    const BufferId first = fixture.New(48 * kKiB, 1, "first");
    const BufferId second = fixture.New(48 * kKiB, 2, "second");
    ASSERT_TRUE(fixture.Send(first).ok());
    const absl::Status status = fixture.Send(second);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("buffer 'second' cannot leave"));
    EXPECT_EQ(fixture.State(second), BufferState::kOnDevice);
    EXPECT_TRUE(fixture.Holds(second, 48 * kKiB, 2));
    ASSERT_TRUE(fixture.offloader().Await(first).ok());
    EXPECT_EQ(fixture.offloader().Stats().refused, 1);
    EXPECT_LE(fixture.offloader().Stats().peak_host_bytes, 64 * kKiB);
    // A buffer that has come back leaves free host memory.
    ASSERT_TRUE(fixture.offloader().Prefetch(first, fixture.stream()).ok());
    ASSERT_TRUE(fixture.Holds(first, 48 * kKiB, 1));
    ASSERT_TRUE(fixture.Send(second).ok());
    ASSERT_TRUE(fixture.offloader().Await(second).ok());
  }
}

TEST(OffloaderHostTest, ACompressedCopyIsRefusedAtItsEnd) {
  for (const auto release : {kWhenOut, kWhenAwaited}) {
    OffloaderFixtureOptions options = Small(release, true);
    options.page_bytes = 32 * kKiB;
    OffloaderFixture fixture(options);
    const BufferId buffer = fixture.New(200 * kKiB, 1);
    ASSERT_TRUE(fixture.Send(buffer).ok());
    EXPECT_EQ(fixture.offloader().Await(buffer).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(fixture.State(buffer), BufferState::kOnDevice);
    EXPECT_EQ(fixture.offloader().Await(buffer).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(fixture.offloader().Stats().refused, 1);
    EXPECT_TRUE(fixture.Holds(buffer, 200 * kKiB, 1));
    EXPECT_TRUE(fixture.offloader().Synchronize().ok());
  }
}

// With kWhenAwaited, addresses of buffers do not depend on the speed of copies.
TEST(OffloaderHostTest, AddressesDoNotDependOnTime) {
  for (int seed = 0; seed < testing::Rounds(20); ++seed) {
    std::vector<std::vector<std::int64_t>> places;
    for (const double speed : {0.0, 4e8, 5e7}) {
      OffloaderFixtureOptions options = Small(kWhenAwaited);
      options.device.copy_bytes_per_second = speed;
      OffloaderFixture fixture(options);
      Offloader& offloader = fixture.offloader();
      std::mt19937_64 random(static_cast<std::uint64_t>(seed));
      std::vector<BufferId> buffers;
      auto& offsets = places.emplace_back();
      const auto note = [&](BufferId buffer) {
        offsets.push_back(fixture.pool().OffsetOf(offloader.Use(buffer, fixture.stream()).value()));
      };
      for (int step = 0; step < 60; ++step) {
        if (buffers.empty() || random() % 3 == 0) {
          const auto buffer = offloader.Allocate((1 + random() % 60) * kKiB, fixture.stream());
          offsets.push_back(buffer.ok() ? 0 : -2);
          if (!buffer.ok()) continue;
          buffers.push_back(*buffer);
          note(*buffer);
          continue;
        }
        const std::size_t at = random() % buffers.size();
        switch (random() % 4) {
          case 0:
            offsets.push_back(fixture.Send(buffers[at]).ok() ? -3 : -4);
            break;
          case 1:
            if (offloader.Prefetch(buffers[at], fixture.stream()).ok()) note(buffers[at]);
            break;
          case 2:
            offloader.Await(buffers[at]).IgnoreError();
            break;
          default:
            ASSERT_TRUE(offloader.Free(buffers[at]).ok());
            buffers.erase(buffers.begin() + static_cast<std::ptrdiff_t>(at));
        }
      }
    }
    EXPECT_EQ(places[0], places[1]);
    EXPECT_EQ(places[0], places[2]);
  }
}

// Without Await or Synchronize.
TEST(OffloaderHostMemoryTest, CopiesThatAreOfNoUseKeepNothingOnTheHost) {
  OffloaderFixtureOptions options = Small(kWhenAwaited);
  options.host_bytes = 128 * kKiB;
  OffloaderFixture fixture(options);
  Offloader& offloader = fixture.offloader();
  for (int i = 0; i < 10; ++i) {
    const BufferId buffer = fixture.New(100 * kKiB, 1);
    ASSERT_TRUE(fixture.Send(buffer).ok());
    ASSERT_TRUE(offloader.Prefetch(buffer, fixture.stream()).ok());
    ASSERT_TRUE(fixture.device().SynchronizeStream(offloader.out_stream()).ok());
    const absl::Status again = fixture.Send(buffer);
    ASSERT_TRUE(again.ok()) << again;
    ASSERT_TRUE(offloader.Free(buffer).ok());
    ASSERT_TRUE(fixture.device().SynchronizeStream(offloader.out_stream()).ok());
    EXPECT_EQ(offloader.Stats().host_bytes, 0);
  }
  EXPECT_EQ(offloader.Stats().refused, 0);
  EXPECT_EQ(offloader.Stats().offloads, 20);
}

TEST(OffloaderHostMemoryTest, AnEarlierErrorDoesNotBringABufferBack) {
  OffloaderFixtureOptions options = Small(kWhenOut, true);
  options.page_bytes = 16 * kKiB;
  OffloaderFixture fixture(options);
  Offloader& offloader = fixture.offloader();
  const BufferId buffer = fixture.New(200 * kKiB, 1);
  ASSERT_TRUE(fixture.Send(buffer).ok());
  while (fixture.State(buffer) == BufferState::kGoingOut) std::this_thread::yield();
  ASSERT_EQ(fixture.State(buffer), BufferState::kOnDevice);
  ASSERT_TRUE(fixture.Send(buffer, std::nullopt).ok());
  ASSERT_TRUE(offloader.Await(buffer).ok());
  EXPECT_EQ(offloader.Use(buffer, fixture.stream()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(offloader.Synchronize().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(offloader.Synchronize().ok());
}

}  // namespace
}  // namespace tidepool
