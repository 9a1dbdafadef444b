// SPDX-License-Identifier: Apache-2.0
// Every call of the device fails once, at every place where memory is given back, moved or made
// room for: the books stay right, and nothing is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/range_checker.h"

namespace tidepool {
namespace {

using Call = HostDevice::Call;

constexpr std::int64_t kPoolGranule = 64 * kKiB;
constexpr std::int64_t kPoolBudget = 16 * kPoolGranule;

// A pool just before a call that changes its memory.
struct Scene {
  Device& device;
  const Stream first;
  const Stream second;
  std::unique_ptr<Pool> pool;
  std::vector<void*> live = {};
  void* others = nullptr;  // memory of the device that the pool does not have

  void Take(std::int64_t bytes) {
    const absl::StatusOr<void*> p = pool->Allocate(static_cast<std::size_t>(bytes), first);
    ASSERT_TRUE(p.ok()) << p.status();
    live.push_back(*p);
  }
  void TakeEach(int count, std::int64_t bytes) {
    for (int i = 0; i < count; ++i) Take(bytes);
  }
  void Free(std::size_t index, Stream stream) {
    ASSERT_TRUE(pool->Free(live[index], stream).ok());
    live[index] = nullptr;
  }
  // Every other one.
  void FreeHalf() {
    for (std::size_t i = 0; i < live.size(); i += 2) Free(i, i % 4 == 0 ? first : second);
  }
  absl::Status Allocate(std::int64_t bytes) {
    const absl::StatusOr<void*> p = pool->Allocate(static_cast<std::size_t>(bytes), second);
    if (p.ok()) live.push_back(*p);
    return p.status();
  }
};

struct FaultsCase {
  const char* name;
  PoolOptions options;
  std::function<void(Scene&)> set;
  std::function<absl::Status(Scene&)> call;
};

void PrintTo(const FaultsCase& faults, std::ostream* out) { *out << faults.name; }

absl::Status Trim(Scene& scene) { return scene.pool->Trim().status(); }

std::vector<FaultsCase> FaultsCases() {
  const auto scatter = [](Scene& scene) {
    scene.TakeEach(16, kPoolGranule);
    scene.FreeHalf();
  };
  const PoolOptions options = {.max_bytes = kPoolBudget};
  PoolOptions remapping = options;
  remapping.remap = true;
  PoolOptions segments = options;
  segments.memory = PoolMemory::kSegments;
  PoolOptions odd = options;
  odd.max_bytes = kPoolBudget + kPoolGranule / 2;
  return {
      {"TrimVirtual", options, scatter, Trim},
      {"TrimOddBudget", odd, scatter, Trim},
      {"TrimRemapping", remapping, scatter, Trim},
      {"TrimMoved", remapping,
       [=](Scene& scene) {
         scatter(scene);
         ASSERT_TRUE(scene.Allocate(8 * kPoolGranule).ok());
         scene.Free(16, scene.second);
       },
       Trim},
      {"TrimSegments", segments, scatter, Trim},
      {"GrowthGivesBackForBudget", segments, scatter,
       [](Scene& scene) { return scene.Allocate(3 * kPoolGranule); }},
      {"GrowthGivesBackForTheDevice", segments,
       [](Scene& scene) {
         scene.TakeEach(12, kPoolGranule);
         scene.FreeHalf();
         const std::int64_t rest = scene.device.memory_bytes() - scene.device.used_bytes();
         scene.others = scene.device.AllocateMemory(rest).value();
       },
       [](Scene& scene) { return scene.Allocate(4 * kPoolGranule); }},
      {"GrowthMoves", remapping,
       [](Scene& scene) {
         scene.TakeEach(12, kPoolGranule);
         scene.FreeHalf();
       },
       [](Scene& scene) { return scene.Allocate(9 * kPoolGranule); }},
      {"GrowthCutsOffTheEnd", odd,
       [](Scene& scene) {
         scene.TakeEach(15, kPoolGranule);
         scene.Take(3 * kPoolGranule / 2);
         scene.Free(3, scene.first);
         ASSERT_TRUE(scene.pool->Trim().ok());
         scene.Free(14, scene.second);
         scene.Free(15, scene.second);
         scene.Take(3 * kPoolGranule);
         scene.Free(16, scene.second);
         scene.Take(5 * kPoolGranule / 2);
       },
       [](Scene& scene) { return scene.Allocate(kPoolGranule); }},
  };
}

class MemoryFaultsTest : public PoolFixture, public ::testing::WithParamInterface<FaultsCase> {
 protected:
  MemoryFaultsTest()
      : PoolFixture({.memory_bytes = 64 * kPoolGranule, .granularity = kPoolGranule}) {}

  // Returns how many calls of the kind there were.
  std::int64_t Play(Call call, std::int64_t failing) {
    PoolOptions options = GetParam().options;
    options.recorder = observer_;
    Scene scene{*device_, NewStream(), NewStream(), NewPool(options)};
    GetParam().set(scene);
    const std::int64_t calls = device_->CountCalls(call);
    device_->FailCall(call, failing);
    const absl::Status status = GetParam().call(scene);
    device_->FailCall(call, 0);
    EXPECT_TRUE(status.ok() || (failing > 0 && absl::IsUnavailable(status))) << status;
    const std::int64_t made = device_->CountCalls(call) - calls;
    ExpectThatNothingIsLost(scene);
    return made;
  }

  // Lets each call of the device fail in turn.
  void PlayEach() {
    std::int64_t calls = 0;
    for (const Call call :
         {Call::kCreateEvent, Call::kRecordEvent, Call::kWaitEvent, Call::kQueryEvent,
          Call::kSynchronizeEvent, Call::kAllocateMemory, Call::kFreeMemory, Call::kCreatePhysical,
          Call::kReleasePhysical, Call::kMap, Call::kUnmap}) {
      SCOPED_TRACE(static_cast<int>(call));
      const std::int64_t most = Play(call, 0);
      calls += most;
      for (std::int64_t n = 1; n <= most; ++n) {
        SCOPED_TRACE(n);
        Play(call, n);
      }
    }
    EXPECT_GT(calls, 0);
  }

  void ExpectThatNothingIsLost(Scene& scene) {
    const absl::Status status = scene.pool->CheckInvariants();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_LE(scene.pool->Stats().reserved_bytes, kPoolBudget + kPoolGranule);
    if (scene.others != nullptr) {
      EXPECT_TRUE(device_->FreeMemory(scene.others).ok());
    }
    for (void* const address : scene.live) EXPECT_TRUE(scene.pool->Free(address, scene.first).ok());
    const auto all = static_cast<std::size_t>(scene.pool->Stats().max_bytes);
    const absl::StatusOr<void*> p = scene.pool->Allocate(all, scene.first);
    ASSERT_TRUE(p.ok()) << p.status();
    EXPECT_TRUE(scene.pool->Free(*p, scene.first).ok());
    EXPECT_TRUE(scene.pool->Trim().ok());
    EXPECT_EQ(scene.pool->Stats().reserved_bytes, 0);
    EXPECT_EQ(device_->used_bytes(), 0);
    scene.pool.reset();
    EXPECT_EQ(device_->used_bytes(), 0);
  }

  PoolObserver* observer_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(FaultsCases, MemoryFaultsTest, ::testing::ValuesIn(FaultsCases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(MemoryFaultsTest, LoseNothing) { PlayEach(); }

TEST_P(MemoryFaultsTest, TellAnObserverTheRanges) {
  testing::RangeChecker checker;
  observer_ = &checker;
  PlayEach();
  EXPECT_EQ(checker.ranges(), 0U);
}

// The device is full after the first piece of new memory, and keeps that one mapped where the pool
// would try again with less, or with memory that it moves.
TEST(FullDeviceTest, KeepsAPieceMappedInTheWayOfAnotherTry) {
  for (const bool remap : {false, true}) {
    SCOPED_TRACE(remap);
    constexpr std::int64_t kHeld = 26 * kPoolGranule;
    const auto device = HostDevice::Create({.memory_bytes = 64 * kPoolGranule}).value();
    const Stream stream = device->CreateStream().value();
    PoolOptions options;
    options.initial_bytes = kHeld;
    options.max_bytes = 60 * kPoolGranule;
    options.growth = 1;
    options.remap = remap;
    auto pool = Pool::Create(device.get(), options).value();
    std::vector<void*> live;
    const std::int64_t bytes = remap ? kPoolGranule : kHeld / 2;
    for (std::int64_t at = 0; at < kHeld; at += bytes) {
      live.push_back(pool->Allocate(static_cast<std::size_t>(bytes), stream).value());
    }
    // To be moved, and too little to be moved before new memory is asked for.
    for (std::size_t i = 10; i < live.size(); i += 10) {
      ASSERT_TRUE(pool->Free(std::exchange(live[i], nullptr), stream).ok());
    }
    // New memory comes in pieces of four granules, or of one where it may be moved.
    const std::int64_t left = remap ? kPoolGranule : 6 * kPoolGranule;
    void* const others = device->AllocateMemory(64 * kPoolGranule - kHeld - left).value();
    device->FailCall(Call::kUnmap, 1);
    EXPECT_EQ(pool->Allocate(2 * kPoolGranule, stream).status().code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    const absl::StatusOr<void*> next = pool->Allocate(2 * kPoolGranule, stream);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_TRUE(pool->Free(*next, stream).ok());
    for (void* const address : live) EXPECT_TRUE(pool->Free(address, stream).ok());
    pool.reset();
    EXPECT_TRUE(device->FreeMemory(others).ok());
    EXPECT_EQ(device->used_bytes(), 0);
  }
}

// Does not unmap some addresses.
class HoldingDevice final : public testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  absl::Status Unmap(void* address) override {
    if (std::ranges::count(held, address) > 0) return absl::UnavailableError("still mapped");
    return ForwardingDevice::Unmap(address);
  }
  std::vector<void*> held;
};

// The device keeps memory that is mapped at an old address: counted as given back, it let the pool
// take more than its budget.
TEST(FullDeviceTest, KeepsMemoryThatTrimWouldGiveBack) {
  constexpr std::int64_t kMost = 4 * kPoolGranule;
  const auto host = HostDevice::Create({.memory_bytes = kPoolBudget}).value();
  HoldingDevice device(*host);
  const Stream stream = device.CreateStream().value();
  PoolOptions options;
  options.max_bytes = kMost;
  options.growth = 0;
  options.remap = true;
  auto pool = Pool::Create(&device, options).value();
  std::vector<void*> live;
  for (int i = 0; i < 4; ++i) live.push_back(pool->Allocate(kPoolGranule, stream).value());
  device.held = {live[0], live[2]};
  for (const std::size_t i : {0, 2}) ASSERT_TRUE(pool->Free(live[i], stream).ok());
  void* const moved = pool->Allocate(2 * kPoolGranule, stream).value();
  ASSERT_TRUE(pool->Free(moved, stream).ok());
  EXPECT_TRUE(pool->Trim().ok());
  void* const again = pool->Allocate(2 * kPoolGranule, stream).value();
  EXPECT_LE(host->used_bytes(), kMost);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  device.held.clear();
  for (void* const address : {live[1], live[3], again}) {
    EXPECT_TRUE(pool->Free(address, stream).ok());
  }
  EXPECT_EQ(*pool->Trim(), kMost);
  EXPECT_EQ(host->used_bytes(), 0);
}

}  // namespace
}  // namespace tidepool
