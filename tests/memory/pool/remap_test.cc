// SPDX-License-Identifier: Apache-2.0
// Remapping: the live bytes decide whether a request is refused, and their addresses never do.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/policy_names.h"

namespace tidepool {
namespace {

constexpr std::int64_t kPageGranule = 4 * kKiB;

class RemapTest : public PoolFixture {
 protected:
  RemapTest() : PoolFixture({.memory_bytes = 64 * kMiB, .granularity = kPageGranule}) {}

  std::unique_ptr<Pool> Remapping(std::int64_t granules,
                                  const std::string& placement = "best-fit") {
    return NewPool({.max_bytes = granules * kPageGranule, .placement = placement, .remap = true});
  }
  void* Allocate(Pool& pool, std::int64_t granules, Stream stream) {
    const absl::StatusOr<void*> p =
        pool.Allocate(static_cast<std::size_t>(granules * kPageGranule), stream);
    EXPECT_TRUE(p.ok()) << p.status();
    EXPECT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
    return p.value_or(nullptr);
  }
};

TEST_F(RemapTest, MovesFreeMemoryToWhereItFits) {
  auto pool = Remapping(8);
  const Stream stream = NewStream();
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(Allocate(*pool, 1, stream));
    ASSERT_TRUE(
        device_->Fill(blocks.back(), static_cast<std::uint8_t>(i), kPageGranule, stream).ok());
  }
  for (int i = 0; i < 8; i += 2) ASSERT_TRUE(pool->Free(blocks[i], stream).ok());
  void* const large = Allocate(*pool, 4, stream);
  EXPECT_EQ(pool->Stats().remaps, 1);
  EXPECT_EQ(pool->Stats().remapped_bytes, 4 * kPageGranule);
  EXPECT_EQ(pool->Stats().reserved_bytes, 8 * kPageGranule);
  EXPECT_EQ(pool->Stats().free_bytes, 0);
  EXPECT_EQ(device_->used_bytes(), 8 * kPageGranule);
  ASSERT_TRUE(device_->Fill(large, 99, 4 * kPageGranule, stream).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
  for (int i = 1; i < 8; i += 2) {
    EXPECT_EQ(std::count(static_cast<char*>(blocks[i]),
                         static_cast<char*>(blocks[i]) + kPageGranule, static_cast<char>(i)),
              kPageGranule);
  }
  // Memory that was taken away is not the pool's.
  EXPECT_EQ(pool->Free(blocks[0], stream).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pool->Snapshot().size(), 5U);
  EXPECT_EQ(pool->Allocate(1, stream).status().code(), absl::StatusCode::kResourceExhausted);
  for (int i = 1; i < 8; i += 2) ASSERT_TRUE(pool->Free(blocks[i], stream).ok());
  ASSERT_TRUE(pool->Free(large, stream).ok());
  void* const all = Allocate(*pool, 8, stream);
  EXPECT_TRUE(pool->Free(all, stream).ok());
  ASSERT_TRUE(pool->Trim().ok());
  EXPECT_EQ(device_->used_bytes(), 0);
}

// Section III-B of vDNN++ (IPDPS 2019), a unit being 3 granules: of any placement 13 are needed
// where 12 are live.
TEST_F(RemapTest, ServesASequenceThatNoPlacementCan) {
  for (const bool remap : {false, true}) {
    const Stream stream = NewStream();
    auto pool = NewPool({.max_bytes = 12 * kPageGranule, .remap = remap});
    std::map<std::pair<int, int>, void*> live;
    bool refused = false;
    for (int i = 1; i <= 4; ++i) {
      const int granules = std::vector{0, 3, 1, 2, 6}[static_cast<std::size_t>(i)];
      for (int j = i; j <= 4; ++j) {
        const auto p = pool->Allocate(static_cast<std::size_t>(granules * kPageGranule), stream);
        refused |= !p.ok();
        if (p.ok()) live[{i, j}] = *p;
      }
      for (int k = 1; k <= i; ++k) {
        if (live.contains({k, i})) {
          EXPECT_TRUE(pool->Free(live.at({k, i}), stream).ok());
        }
      }
    }
    EXPECT_EQ(refused, !remap);
    EXPECT_EQ(pool->Stats().live_count, 0);
  }
}

// A held copy still reads the old addresses when another stream has their memory at new addresses:
// that stream waits, on the device.
TEST_F(RemapTest, LetsTheNewOwnerWaitForTheOldOne) {
  for (const bool same_stream : {false, true}) {
    auto pool = Remapping(4);
    const Stream first = NewStream();
    const Stream second = same_stream ? first : NewStream();
    std::vector<void*> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(Allocate(*pool, 1, first));
    for (void* block : blocks) ASSERT_TRUE(device_->Fill(block, 7, kPageGranule, first).ok());
    ASSERT_TRUE(device_->SynchronizeStream(first).ok());
    std::vector<char> read(2 * kPageGranule);
    device_->HoldCopies();
    for (const int i : {0, 2}) {
      ASSERT_TRUE(device_
                      ->Copy(&read[i / 2 * kPageGranule], blocks[i], kPageGranule,
                             CopyDirection::kFromDevice, first)
                      .ok());
      ASSERT_TRUE(pool->Free(blocks[i], first).ok());
    }
    void* const large = Allocate(*pool, 2, second);
    EXPECT_EQ(pool->Stats().remaps, 1);
    std::atomic<bool> is_filled = false;
    ASSERT_TRUE(device_->Fill(large, 1, 2 * kPageGranule, second).ok());
    ASSERT_TRUE(device_->CallHost(second, [&] { is_filled = true; }).ok());
    EXPECT_FALSE(is_filled);
    device_->ReleaseCopies();
    ASSERT_TRUE(device_->SynchronizeStream(second).ok());
    EXPECT_TRUE(is_filled);
    EXPECT_EQ(std::count(read.begin(), read.end(), 7), 2 * kPageGranule);
    EXPECT_EQ(
        std::count(static_cast<char*>(large), static_cast<char*>(large) + 2 * kPageGranule, 1),
        2 * kPageGranule);
    for (void* p : {blocks[1], blocks[3], large}) EXPECT_TRUE(pool->Free(p, second).ok());
    ASSERT_TRUE(pool->Trim().ok());
    EXPECT_EQ(device_->used_bytes(), 0);
  }
}

// Lets held copies go on when a thread waits for them on the host.
class ReleasesOnWait : public testing::ForwardingDevice {
 public:
  explicit ReleasesOnWait(HostDevice& device) : ForwardingDevice(device), host_(device) {}

  absl::Status SynchronizeEvent(Event event) override {
    host_.ReleaseCopies();
    ++waits_;
    return ForwardingDevice::SynchronizeEvent(event);
  }
  int waits() const { return waits_; }

 private:
  HostDevice& host_;
  int waits_ = 0;
};

// Each move costs addresses while a copy is held; they end before the memory does.
TEST_F(RemapTest, WaitsWhenWorkUnderWayUsesAllAddresses) {
  ReleasesOnWait device(*device_);
  auto pool = Pool::Create(&device, {.max_bytes = 8 * kPageGranule, .remap = true}).value();
  const Stream streams[] = {NewStream(), NewStream()};
  std::vector<char> read(kPageGranule);
  for (int round = 0; round < 100 && device.waits() == 0; ++round) {
    const Stream stream = streams[round % 2];
    std::vector<void*> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(Allocate(*pool, 1, stream));
    device_->HoldCopies();
    ASSERT_TRUE(
        device.Copy(read.data(), blocks[0], kPageGranule, CopyDirection::kFromDevice, stream).ok());
    for (int i = 0; i < 8; i += 2) ASSERT_TRUE(pool->Free(blocks[i], stream).ok());
    void* const large = Allocate(*pool, 4, stream);
    ASSERT_NE(large, nullptr);
    for (int i = 1; i < 8; i += 2) ASSERT_TRUE(pool->Free(blocks[i], stream).ok());
    ASSERT_TRUE(pool->Free(large, stream).ok());
  }
  EXPECT_GT(device.waits(), 0);
  device_->ReleaseCopies();
  for (const Stream stream : streams) EXPECT_TRUE(device_->SynchronizeStream(stream).ok());
}

TEST_F(RemapTest, TrimsAnywhereAndGrowsThereAgain) {
  for (const bool remap : {false, true}) {
    auto pool = NewPool(
        {.initial_bytes = 16 * kPageGranule, .max_bytes = 16 * kPageGranule, .remap = remap});
    const Stream stream = NewStream();
    std::vector<void*> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(Allocate(*pool, 1, stream));
    for (int i = 0; i < 16; ++i) {
      if (i % 8 != 7) {
        ASSERT_TRUE(pool->Free(blocks[i], stream).ok());
      }
    }
    EXPECT_EQ(*pool->Trim(10 * kPageGranule), 6 * kPageGranule);
    ASSERT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    EXPECT_EQ(device_->used_bytes(), 10 * kPageGranule);
    EXPECT_EQ(*pool->Trim(), 8 * kPageGranule);
    ASSERT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    EXPECT_EQ(device_->used_bytes(), 2 * kPageGranule);
    void* const hole = Allocate(*pool, 6, stream);
    EXPECT_EQ(OffsetOf(*pool, hole), 0);
    void* const other = Allocate(*pool, 7, stream);
    EXPECT_EQ(OffsetOf(*pool, other), 8 * kPageGranule);
    EXPECT_EQ(device_->used_bytes(), 15 * kPageGranule);
    for (void* p : {blocks[7], blocks[15], hole, other}) EXPECT_TRUE(pool->Free(p, stream).ok());
    pool.reset();
    EXPECT_EQ(device_->used_bytes(), 0);
  }
}

TEST_F(RemapTest, RefusesABudgetWithoutAGranule) {
  const auto pool = Pool::Create(device_.get(), {.max_bytes = kPageGranule - 512, .remap = true});
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(pool.status().message().find("expected at least 4.0 KiB (4096 bytes)"),
            std::string::npos);
}

TEST_F(RemapTest, MovesWhenTheDeviceIsFull) {
  auto pool = Remapping(1024);
  const Stream stream = NewStream();
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Allocate(*pool, 1, stream));
  for (int i = 0; i < 8; i += 2) ASSERT_TRUE(pool->Free(blocks[i], stream).ok());
  const std::int64_t left = device_->memory_bytes() - device_->used_bytes();
  const auto rest = device_->AllocateMemory(left - 2 * kPageGranule);
  ASSERT_TRUE(rest.ok());
  void* const large = Allocate(*pool, 6, stream);  // 4 are moved, 2 are new
  EXPECT_EQ(pool->Stats().reserved_bytes, 10 * kPageGranule);
  EXPECT_EQ(pool->Allocate(kPageGranule, stream).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(pool->Free(large, stream).ok());
  for (int i = 1; i < 8; i += 2) ASSERT_TRUE(pool->Free(blocks[i], stream).ok());
  ASSERT_TRUE(device_->FreeMemory(*rest).ok());
}

class RemapPropertyTest : public RemapTest, public ::testing::WithParamInterface<std::string> {};

INSTANTIATE_TEST_SUITE_P(Policies, RemapPropertyTest,
                         ::testing::ValuesIn(testing::NamesOfStatelessPolicies()),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Random sizes up to the whole budget, from any of three streams: each request that fits in whole
// granules is served, nothing overlaps, and every buffer keeps its contents.
TEST_P(RemapPropertyTest, ServesAllRequestsThatFitInWholeGranules) {
  constexpr std::int64_t kGranules = 64;
  for (const unsigned seed : {1U, 2U, 3U}) {
    auto pool = Remapping(kGranules, GetParam());
    const std::vector<Stream> streams = {NewStream(), NewStream(), NewStream()};
    struct Buffer {
      char* address;
      std::int64_t bytes;
      char value;
    };
    std::vector<Buffer> live;
    std::int64_t live_granules = 0;
    std::atomic<int> damaged = 0;
    std::mt19937 random(seed);
    const auto in_granules = [](std::int64_t bytes) {
      return (bytes + kPageGranule - 1) / kPageGranule;
    };
    const auto free_one = [&](std::size_t index) {
      std::swap(live[index], live.back());
      const Buffer buffer = live.back();
      live.pop_back();
      live_granules -= in_granules(buffer.bytes);
      const Stream stream = streams[random() % (seed == 1 ? 1 : 3)];
      for (const Stream other : streams) {  // the work so far, wherever it is
        const Event event = device_->CreateEvent().value();
        ASSERT_TRUE(device_->RecordEvent(event, other).ok());
        ASSERT_TRUE(device_->WaitEvent(stream, event).ok());
        ASSERT_TRUE(device_->DestroyEvent(event).ok());
      }
      ASSERT_TRUE(device_
                      ->CallHost(stream,
                                 [buffer, &damaged] {
                                   if (std::count(buffer.address, buffer.address + buffer.bytes,
                                                  buffer.value) != buffer.bytes) {
                                     ++damaged;
                                   }
                                 })
                      .ok());
      ASSERT_TRUE(pool->Free(buffer.address, stream).ok());
    };
    for (int step = 0; step < 1500; ++step) {
      const std::int64_t most = std::vector{1, 3, 8, 40}[random() % 4] * kPageGranule;
      const auto bytes = static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(most));
      if (live_granules + in_granules(bytes) > kGranules) {
        if (!live.empty()) free_one(random() % live.size());
        continue;
      }
      const Stream stream = streams[random() % (seed == 1 ? 1 : 3)];
      const auto p = pool->Allocate(static_cast<std::size_t>(bytes), stream);
      ASSERT_TRUE(p.ok()) << p.status() << " at step " << step << " with " << live_granules;
      live.push_back({static_cast<char*>(*p), bytes, static_cast<char>(random())});
      live_granules += in_granules(bytes);
      ASSERT_TRUE(
          device_->Fill(*p, static_cast<std::uint8_t>(live.back().value), bytes, stream).ok());
      if (step % 50 == 0) {
        ASSERT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
      }
      if (step % 400 == 399) {
        ASSERT_TRUE(pool->Trim(20 * kPageGranule).ok());
      }
    }
    EXPECT_GT(pool->Stats().remaps, 10);
    EXPECT_LE(pool->Stats().peak_reserved_bytes, kGranules * kPageGranule);
    EXPECT_EQ(pool->Stats().failures, 0);
    while (!live.empty()) free_one(0);
    pool.reset();
    EXPECT_EQ(damaged, 0);
    EXPECT_EQ(device_->used_bytes(), 0);
  }
}

}  // namespace
}  // namespace tidepool
