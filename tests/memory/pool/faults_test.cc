// SPDX-License-Identifier: Apache-2.0
// Every call of the device fails once, at every place where it is made: the operation says so, the
// books stay right, and the next operation works.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/range_checker.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

using Case = std::tuple<Call, PoolKind>;

// The calls of a device that pools of all kinds make in their life.
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const PoolKind& kind : kPoolKinds) {
    for (const Call call : {Call::kCreateEvent, Call::kRecordEvent, Call::kWaitEvent,
                            Call::kQueryEvent, Call::kSynchronizeEvent, Call::kDestroyEvent}) {
      cases.emplace_back(call, kind);
    }
    if (kind.memory == PoolMemory::kSegments) {
      cases.emplace_back(Call::kAllocateMemory, kind);
      cases.emplace_back(Call::kFreeMemory, kind);
      continue;
    }
    for (const Call call : {Call::kReserveAddresses, Call::kReleaseAddresses, Call::kCreatePhysical,
                            Call::kReleasePhysical, Call::kMap, Call::kUnmap}) {
      cases.emplace_back(call, kind);
    }
  }
  return cases;
}

class FaultsTest : public PoolFixture, public ::testing::WithParamInterface<Case> {
 protected:
  Call call() const { return std::get<0>(GetParam()); }
  const PoolKind& kind() const { return std::get<1>(GetParam()); }
  bool remap() const { return kind().remap; }

  struct Outcome {
    bool failed = false;     // some operation did
    std::int64_t calls = 0;  // so far, when the pool was about to be destroyed
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
    auto created = Pool::Create(
        device_.get(),
        {.initial_bytes = kMiB, .max_bytes = 8 * kMiB, .memory = kind().memory, .remap = remap()});
    outcome.calls = device_->CountCalls(call());
    if (!ok(created.status())) return outcome;
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
    if (remap()) {
      while (live.size() < 8) allocate(kMiB, live.size() % 2 == 0 ? first : second);
      std::sort(live.begin(), live.end());
      for (const std::size_t i : {1, 3, 4}) std::swap(live[i], live[i == 4 ? 6 : i + 4]);
      for (int i = 0; i < 3; ++i) free_last(second);
      allocate(3 * kMiB, third);
      EXPECT_GT(pool.Stats().remaps, 0);
      while (live.size() > 1) free_last(first);
    }
    twice([&] { return pool.Trim().status(); });
    allocate(7 * kMiB, second);
    free_last(second);
    free_last(second);
    twice([&] { return pool.Trim().status(); });
    EXPECT_EQ(device_->used_bytes(), 0);
    outcome.calls = device_->CountCalls(call());
    return outcome;
  }
};

INSTANTIATE_TEST_SUITE_P(Calls, FaultsTest, ::testing::ValuesIn(Cases()), [](const auto& test) {
  return std::to_string(static_cast<int>(std::get<0>(test.param))) + "_" +
         std::get<1>(test.param).name;
});

TEST_P(FaultsTest, FailTheOperationAndNothingElse) {
  const std::int64_t before = device_->CountCalls(call());
  EXPECT_FALSE(Play().failed);
  const std::int64_t calls = device_->CountCalls(call()) - before;
  ASSERT_GT(calls, 0) << "the life has no such call";
  for (std::int64_t n = 1; n <= calls; ++n) {
    const std::int64_t start = device_->CountCalls(call());
    device_->FailCall(call(), n);
    const Outcome outcome = Play();
    device_->FailCall(call(), 0);
    // A destructor cannot return an error, so it tries again. A lost event does no harm, old
    // addresses of moved memory are unmapped when the device allows it, and a slab that cannot
    // begin leaves its stream's requests to the pool.
    const bool was_destroyed = start + n > outcome.calls;
    const bool may_wait =
        call() == Call::kDestroyEvent || (!remap() && call() == Call::kQueryEvent) ||
        (remap() &&
         (call() == Call::kRecordEvent || call() == Call::kQueryEvent || call() == Call::kUnmap));
    EXPECT_TRUE(outcome.failed || was_destroyed || may_wait) << n;
    EXPECT_EQ(device_->used_bytes(), 0) << n;
  }
}

// A device where the calls of some kinds fail for as long as one says.
class FailingDevice : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes) override {
    if (creations_left == 0) return absl::ResourceExhaustedError("the device is full");
    --creations_left;
    return ForwardingDevice::CreatePhysical(bytes);
  }
  absl::Status Unmap(void* address) override {
    if (unmap_fails) return absl::UnavailableError("Unmap");
    return ForwardingDevice::Unmap(address);
  }
  absl::Status SynchronizeEvent(Event event) override {
    if (synchronize_fails) return absl::UnavailableError("SynchronizeEvent");
    return ForwardingDevice::SynchronizeEvent(event);
  }

  int creations_left = 1 << 30;
  bool unmap_fails = false;
  bool synchronize_fails = false;
};

class DeviceFailureTest : public PoolFixture {
 protected:
  FailingDevice failing_{*device_};
};

TEST_F(DeviceFailureTest, AGrowthThatCannotBeRolledBackStaysOnTheBooks) {
  auto pool = Pool::Create(&failing_, {.max_bytes = 8 * kMiB}).value();
  const Stream stream = NewStream();
  failing_.creations_left = 5;
  failing_.unmap_fails = true;
  EXPECT_EQ(pool->Allocate(4 * kMiB, stream).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  EXPECT_GT(pool->Stats().reserved_bytes, 0);
  failing_.creations_left = 1 << 30;
  failing_.unmap_fails = false;
  const absl::StatusOr<void*> all = pool->Allocate(8 * kMiB, stream);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(device_->used_bytes(), 8 * kMiB);
  EXPECT_TRUE(pool->Free(*all, stream).ok());
}

TEST_F(DeviceFailureTest, APoolIsNotTakenFromUnderRunningWork) {
  auto pool = Pool::Create(&failing_, {.max_bytes = kMiB}).value();
  const Stream stream = NewStream();
  std::vector<char> read(kMiB);
  void* const p = *pool->Allocate(kMiB, stream);
  ASSERT_TRUE(device_->Fill(p, 1, kMiB, stream).ok());
  device_->HoldCopies();
  ASSERT_TRUE(device_->Copy(read.data(), p, kMiB, CopyDirection::kFromDevice, stream).ok());
  ASSERT_TRUE(pool->Free(p, stream).ok());
  ASSERT_TRUE(device_->DestroyStream(stream).ok());  // so that there is no other way to wait
  failing_.synchronize_fails = true;
  ::testing::internal::CaptureStderr();
  pool.reset();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("leaves its memory"), std::string::npos);
  EXPECT_EQ(device_->used_bytes(), kMiB);
  device_->ReleaseCopies();
  const Event end = device_->CreateEvent().value();
  ASSERT_TRUE(device_->RecordEvent(end, stream).ok());
  ASSERT_TRUE(device_->SynchronizeEvent(end).ok());
  EXPECT_EQ(read[kMiB - 1], 1);
}

TEST_F(DeviceFailureTest, ARangeIsNotTakenFromUnderRunningWork) {
  testing::RangeChecker checker;
  PoolOptions options{.max_bytes = kMiB};
  options.recorder = &checker;
  auto pool = Pool::Create(&failing_, options).value();
  const Stream stream = NewStream();
  void* const p = *pool->Allocate(kMiB, stream);
  device_->HoldCopies();
  std::vector<char> read(kMiB);
  ASSERT_TRUE(device_->Copy(read.data(), p, kMiB, CopyDirection::kFromDevice, stream).ok());
  ASSERT_TRUE(pool->Free(p, stream).ok());
  ASSERT_TRUE(device_->DestroyStream(stream).ok());
  failing_.synchronize_fails = true;
  pool.reset();
  EXPECT_EQ(checker.ranges(), 1U);
  device_->ReleaseCopies();
  const Event end = device_->CreateEvent().value();
  ASSERT_TRUE(device_->RecordEvent(end, stream).ok());
  ASSERT_TRUE(device_->SynchronizeEvent(end).ok());
}

}  // namespace
}  // namespace tidepool
