// Every call of the device fails once, at every place where it is made: the operation says so, the
// books stay right, and the next operation works.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/pool/pool_fixture.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

// What the pool calls of a device in its life.
constexpr Call kCalls[] = {Call::kCreateEvent,
                           Call::kRecordEvent,
                           Call::kWaitEvent,
                           Call::kQueryEvent,
                           Call::kSynchronizeEvent,
                           Call::kDestroyEvent,
                           Call::kReserveAddresses,
                           Call::kReleaseAddresses,
                           Call::kCreatePhysical,
                           Call::kReleasePhysical,
                           Call::kMap,
                           Call::kUnmap};

class FaultsTest : public PoolFixture, public ::testing::WithParamInterface<Call> {
 protected:
  struct Outcome {
    bool failed = false;     // some operation did
    bool creatable = false;  // the pool came to be
  };

  // Plays a life with all kinds of operations, each tried again when it fails once.
  Outcome Play() {
    Outcome outcome;
    const auto ok = [&](const absl::Status& status) {
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        outcome.failed = true;
      }
      return status.ok();
    };
    const Stream first = NewStream();
    const Stream second = NewStream();
    const Stream third = NewStream();
    auto created = Pool::Create(device_.get(), {.initial_bytes = kMiB, .max_bytes = 8 * kMiB});
    if (!ok(created.status())) return outcome;
    outcome.creatable = true;
    Pool& pool = **created;
    const auto twice = [&](const std::function<absl::Status()>& operation) {
      if (!ok(operation())) {
        EXPECT_TRUE(operation().ok());
      }
      EXPECT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
    };
    std::vector<void*> live;
    const auto allocate = [&](std::size_t bytes, Stream stream) {
      twice([&] {
        const absl::StatusOr<void*> p = pool.Allocate(bytes, stream);
        if (p.ok()) live.push_back(*p);
        return p.status();
      });
    };
    const auto free_last = [&](Stream stream) {
      twice([&] { return pool.Free(live.back(), stream); });
      live.pop_back();
    };
    for (int i = 0; i < 6; ++i) allocate(kMiB, i % 2 == 0 ? first : second);  // grows
    for (int i = 0; i < 4; ++i) free_last(first);
    for (int i = 0; i < 4; ++i) allocate(kMiB, i < 2 ? second : third);  // crosses
    EXPECT_TRUE(device_->SynchronizeStream(first).ok());
    EXPECT_TRUE(device_->SynchronizeStream(second).ok());
    for (int i = 0; i < 5; ++i) free_last(i % 2 == 0 ? first : second);
    allocate(3 * kMiB, first);
    free_last(first);
    twice([&] { return pool.Trim().status(); });
    allocate(7 * kMiB, second);
    free_last(second);
    free_last(second);
    twice([&] { return pool.Trim().status(); });
    EXPECT_EQ(device_->used_bytes(), 0);
    return outcome;
  }
};

INSTANTIATE_TEST_SUITE_P(Calls, FaultsTest, ::testing::ValuesIn(kCalls), [](const auto& instance) {
  return std::to_string(static_cast<int>(instance.param));
});

TEST_P(FaultsTest, FailTheOperationAndNothingElse) {
  const std::int64_t before = device_->CountCalls(GetParam());
  EXPECT_FALSE(Play().failed);
  const std::int64_t calls = device_->CountCalls(GetParam()) - before;
  ASSERT_GT(calls, 0) << "the life has no such call";
  for (std::int64_t n = 1; n <= calls; ++n) {
    device_->FailCall(GetParam(), n);
    ::testing::internal::CaptureStderr();
    const Outcome outcome = Play();
    const std::string report = ::testing::internal::GetCapturedStderr();
    device_->FailCall(GetParam(), 0);
    // What fails when a pool is destroyed can only be printed; the fate of an event matters to
    // nobody.
    if (GetParam() != Call::kDestroyEvent) {
      EXPECT_TRUE(outcome.failed || !report.empty()) << "call " << n;
    }
  }
}

}  // namespace
}  // namespace tidepool
