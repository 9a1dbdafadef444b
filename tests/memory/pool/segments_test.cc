// SPDX-License-Identifier: Apache-2.0
// Segments: whole allocations of the device. The whole budget is always available in one segment,
// and no block joins two of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/memory/pool/pool_fixture.h"
#include "tests/support/forwarding_device.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;
using Call = HostDevice::Call;

// A device with allocations that touch each other and come from either end, so that neither their
// order nor a distance keeps them apart. It knows all of them.
class TouchingDevice : public testing::ForwardingDevice {
 public:
  TouchingDevice(HostDevice& device, std::int64_t bytes)
      : ForwardingDevice(device), low_(static_cast<char*>(*device.AllocateMemory(bytes))) {
    low_ += bytes / 2;
    high_ = low_;
  }

  std::int64_t granularity() const override { return 0; }
  std::int64_t memory_bytes() const override { return memory_bytes_; }
  std::int64_t used_bytes() const override { return used_bytes_; }
  absl::StatusOr<void*> AllocateMemory(std::int64_t bytes) override {
    if (used_bytes_ + bytes > memory_bytes_) {
      return absl::ResourceExhaustedError("the device is full");
    }
    char* const address = ++count_ % 2 == 0 ? low_ -= bytes : high_;
    if (count_ % 2 == 1) high_ += bytes;
    segments_[address] = bytes;
    used_bytes_ += bytes;
    return address;
  }
  absl::Status FreeMemory(void* address) override {
    const auto found = segments_.find(static_cast<char*>(address));
    if (found == segments_.end()) return absl::NotFoundError("no such segment");
    used_bytes_ -= found->second;
    segments_.erase(found);
    return absl::OkStatus();
  }

  void set_memory_bytes(std::int64_t bytes) { memory_bytes_ = bytes; }
  std::size_t count() const { return count_; }
  const std::map<char*, std::int64_t>& segments() const { return segments_; }
  // Where the segment that holds an address ends.
  char* EndOfSegmentAt(char* address) const {
    const auto after = segments_.upper_bound(address);
    return after == segments_.begin() ? nullptr
                                      : std::prev(after)->first + std::prev(after)->second;
  }

 private:
  char* low_;
  char* high_;
  std::size_t count_ = 0;
  std::int64_t memory_bytes_ = kMiB;
  std::int64_t used_bytes_ = 0;
  std::map<char*, std::int64_t> segments_;
};

class SegmentsTest : public PoolFixture {
 protected:
  SegmentsTest() : PoolFixture({.memory_bytes = 256 * kMiB, .granularity = 0}) {}

  void* Take(Pool& pool, std::int64_t bytes, Stream stream) {
    const absl::StatusOr<void*> p = pool.Allocate(static_cast<std::size_t>(bytes), stream);
    EXPECT_TRUE(p.ok()) << p.status();
    EXPECT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
    return p.ok() ? *p : nullptr;
  }
  std::vector<void*> TakeEach(Pool& pool, std::size_t count, std::int64_t bytes, Stream stream) {
    std::vector<void*> blocks(count);
    for (void*& block : blocks) block = Take(pool, bytes, stream);
    return blocks;
  }
  void Free(Pool& pool, void* address, Stream stream) {
    EXPECT_TRUE(pool.Free(address, stream).ok());
    EXPECT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
  }
};

TEST_F(SegmentsTest, AreWhatADeviceWithoutVirtualMemoryHas) {
  const Stream stream = NewStream();
  auto pool = NewPool({.initial_bytes = kMiB, .max_bytes = 4 * kMiB});
  EXPECT_EQ(device_->CountCalls(Call::kAllocateMemory), 1);
  EXPECT_EQ(pool->base(), nullptr);
  void* const p = Take(*pool, 1000, stream);
  std::memset(p, 1, 1000);
  EXPECT_EQ(pool->OffsetOf(p), 0);
  EXPECT_EQ(pool->OffsetOf(&pool), -1);
  Free(*pool, p, stream);
  pool.reset();
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_F(SegmentsTest, AreToBeHadWhereThereIsVirtualMemoryToo) {
  const auto device = HostDevice::Create({}).value();
  for (const PoolMemory memory :
       {PoolMemory::kAutomatic, PoolMemory::kVirtual, PoolMemory::kSegments}) {
    const std::int64_t calls = device->CountCalls(Call::kAllocateMemory);
    const auto pool =
        Pool::Create(device.get(), {.initial_bytes = kMiB, .max_bytes = kMiB, .memory = memory});
    ASSERT_TRUE(pool.ok());
    EXPECT_EQ(device->CountCalls(Call::kAllocateMemory) - calls,
              memory == PoolMemory::kSegments ? 1 : 0);
    EXPECT_EQ((*pool)->base() == nullptr, memory == PoolMemory::kSegments);
  }
}

TEST_F(SegmentsTest, SayWhichOptionsAreNotForThem) {
  const auto error = [&](const PoolOptions& options) {
    const auto pool = Pool::Create(device_.get(), options);
    EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(pool.status().message());
  };
  EXPECT_THAT(error({.memory = PoolMemory::kVirtual}),
              HasSubstr("memory virtual, expected segments, because host has no virtual memory"));
  EXPECT_THAT(error({.remap = true}), HasSubstr("expected virtual memory, which host does not"));
  EXPECT_THAT(error({.alignment = 1024}),
              HasSubstr("expected a power of two up to 512, the alignment of segments"));
  EXPECT_THAT(error({.max_bytes = 257 * kMiB}), HasSubstr("max_bytes"));
  const auto both = HostDevice::Create({}).value();
  const auto pool = Pool::Create(both.get(), {.memory = PoolMemory::kSegments, .remap = true});
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(pool.status().message()), HasSubstr("expected virtual memory"));
}

TEST_F(SegmentsTest, HoldTheBudgetToTheByte) {
  // No multiple of anything but the alignment.
  constexpr std::int64_t kBudget = std::int64_t{12'345} * 512;
  const Stream stream = NewStream();
  auto pool = NewPool({.max_bytes = kBudget + 100});
  std::vector<void*> live;
  std::mt19937 random(1);
  for (;;) {
    const absl::StatusOr<void*> p = pool->Allocate(1 + random() % 50'000, stream);
    ASSERT_LE(device_->used_bytes(), kBudget);
    if (!p.ok()) break;
    live.push_back(*p);
  }
  EXPECT_GT(pool->Stats().growths, 10);
  for (void* const p : live) Free(*pool, p, stream);
  void* const all = Take(*pool, kBudget, stream);
  EXPECT_EQ(device_->used_bytes(), kBudget);
  EXPECT_EQ(pool->Stats().largest_hole_bytes, 0);
  EXPECT_FALSE(pool->Allocate(1, stream).ok());
  Free(*pool, all, stream);
}

TEST_F(SegmentsTest, GrowInFewSteps) {
  for (const std::int64_t bytes : {64 * kKiB, 60'000L}) {
    const Stream stream = NewStream();
    auto pool = NewPool({.initial_bytes = kMiB, .max_bytes = 128 * kMiB, .growth = 0.125});
    std::int64_t count = 0;
    while (pool->Allocate(static_cast<std::size_t>(bytes), stream).ok()) ++count;
    const std::int64_t rounded = (bytes + 511) & -512;
    EXPECT_GE(count, 128 * kMiB / rounded - 1);  // the rest of the first segment
    // ln(128) / ln(1.125) = 41 steps, each at most after an exact step.
    EXPECT_LE(pool->Stats().growths, 82);
  }
}

TEST_F(SegmentsTest, GiveWayToOneThatIsLargeEnough) {
  const Stream stream = NewStream();
  auto pool = NewPool({.max_bytes = 8 * kMiB});
  std::vector<void*> blocks;
  for (const std::int64_t bytes : {1, 2, 3, 2}) blocks.push_back(Take(*pool, bytes * kMiB, stream));
  EXPECT_EQ(device_->used_bytes(), 8 * kMiB);
  std::memset(blocks[1], 7, 2 * kMiB);
  for (const int i : {0, 2, 3}) Free(*pool, blocks[i], stream);
  // 3 MiB are free in one piece, 6 in all. The smallest go, and as few as will do.
  void* const large = Take(*pool, 4 * kMiB, stream);
  EXPECT_EQ(device_->used_bytes(), 8 * kMiB - 6 * kMiB + 4 * kMiB);
  EXPECT_EQ(pool->Stats().reserved_bytes, device_->used_bytes());
  EXPECT_EQ(std::count(static_cast<char*>(blocks[1]), static_cast<char*>(blocks[1]) + 2 * kMiB, 7),
            2 * kMiB);
  EXPECT_FALSE(pool->Allocate(3 * kMiB, stream).ok());
  void* const rest = Take(*pool, 2 * kMiB, stream);
  for (void* const p : {blocks[1], large, rest}) Free(*pool, p, stream);
}

TEST_F(SegmentsTest, StayWhereTheyAreWhenThatDoesNotHelp) {
  const Stream stream = NewStream();
  auto pool = NewPool({.max_bytes = 8 * kMiB});
  const std::vector<void*> blocks = TakeEach(*pool, 8, kMiB, stream);
  for (const int i : {0, 2, 4}) Free(*pool, blocks[i], stream);
  const std::int64_t calls = device_->CountCalls(Call::kAny);
  const absl::Status refused = pool->Allocate(4 * kMiB, stream).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("free or offload 1.0 MiB (1048576 bytes)"));
  EXPECT_EQ(device_->CountCalls(Call::kAny), calls);
  // Enough is free, but half of it beside something live.
  Free(*pool, blocks[6], stream);
  void* const small = Take(*pool, 512, stream);
  const absl::Status split = pool->Allocate(3 * kMiB + 512 * kKiB, stream).status();
  EXPECT_THAT(std::string(split.message()), HasSubstr("not in one piece"));
  Free(*pool, small, stream);
  for (const int i : {1, 3, 5, 7}) Free(*pool, blocks[i], stream);
}

TEST_F(SegmentsTest, GiveWayWhenTheDeviceIsFull) {
  const Stream stream = NewStream();
  auto pool = NewPool({.max_bytes = 256 * kMiB});
  const std::vector<void*> blocks = TakeEach(*pool, 4, 10 * kMiB, stream);
  void* const others = *device_->AllocateMemory(216 * kMiB);
  const absl::Status refused = pool->Allocate(15 * kMiB, stream).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("within its budget but cannot grow"));
  for (const int i : {0, 2}) Free(*pool, blocks[i], stream);
  void* const p = Take(*pool, 15 * kMiB, stream);
  for (void* const q : {blocks[1], blocks[3], p}) Free(*pool, q, stream);
  void* const all = Take(*pool, 40 * kMiB, stream);
  Free(*pool, all, stream);
  EXPECT_TRUE(device_->FreeMemory(others).ok());
}

TEST_F(SegmentsTest, AreTrimmedLastOnesFirst) {
  const Stream stream = NewStream();
  auto pool = NewPool({.max_bytes = 16 * kMiB});
  const std::vector<void*> blocks = TakeEach(*pool, 8, kMiB, stream);
  for (const int i : {0, 2, 3, 7}) Free(*pool, blocks[i], stream);
  EXPECT_EQ(*pool->Trim(8 * kMiB), 0);
  EXPECT_EQ(*pool->Trim(6 * kMiB + 1), kMiB);
  EXPECT_EQ(pool->OffsetOf(blocks[7]), -1);
  EXPECT_THAT(std::string(pool->Free(blocks[7], stream).message()), HasSubstr("not in this pool"));
  EXPECT_EQ(*pool->Trim(), 3 * kMiB);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  EXPECT_EQ(device_->used_bytes(), 4 * kMiB);
  EXPECT_EQ(pool->Stats().free_bytes, 0);
  // Offsets of segments that are gone are used again, where they fit.
  const std::int64_t end = pool->OffsetOf(blocks[6]) + kMiB;
  void* const one = Take(*pool, 2 * kMiB, stream);
  EXPECT_LT(pool->OffsetOf(one), end);
  void* const two = Take(*pool, 3 * kMiB, stream);
  EXPECT_GT(pool->OffsetOf(two), end);
  for (void* const p : {blocks[1], blocks[4], blocks[5], blocks[6], one, two}) {
    Free(*pool, p, stream);
  }
  EXPECT_EQ(*pool->Trim(), 9 * kMiB);
  EXPECT_EQ(pool->Snapshot().size(), 0U);
  void* const all = Take(*pool, 16 * kMiB, stream);
  EXPECT_EQ(pool->OffsetOf(all), 0);
  Free(*pool, all, stream);
}

TEST_F(SegmentsTest, StatisticsKnowNoFences) {
  const Stream stream = NewStream();
  auto pool = NewPool({.max_bytes = 16 * kMiB});
  const std::vector<void*> blocks = TakeEach(*pool, 5, kMiB, stream);
  EXPECT_EQ(pool->Stats().high_water_bytes, 5 * kMiB);
  Free(*pool, blocks[4], stream);
  ASSERT_EQ(*pool->Trim(), kMiB);
  EXPECT_EQ(pool->Stats().high_water_bytes, 5 * kMiB);
  void* const large = Take(*pool, 2 * kMiB, stream);
  EXPECT_EQ(pool->Stats().high_water_bytes, 6 * kMiB);
  Free(*pool, blocks[0], stream);
  const PoolStats stats = pool->Stats();
  EXPECT_EQ(stats.free_bytes, kMiB);
  EXPECT_EQ(stats.largest_hole_bytes, kMiB);
  EXPECT_EQ(stats.fragmentation, 0);
  EXPECT_EQ(stats.reserved_bytes, 6 * kMiB);
  EXPECT_EQ(stats.peak_reserved_bytes, 6 * kMiB);
  for (const int i : {1, 2, 3}) Free(*pool, blocks[i], stream);
  Free(*pool, large, stream);
  EXPECT_EQ(pool->Stats().free_bytes, 6 * kMiB);
}

// The device may reuse memory at once when the pool has given it back.
TEST_F(SegmentsTest, AreGivenBackBehindTheWorkThatUsedThem) {
  for (const bool trims : {false, true}) {
    const Stream first = NewStream();
    const Stream second = NewStream();
    auto pool = NewPool({.max_bytes = 2 * kMiB});
    std::vector<char> read(kMiB);
    void* const a = Take(*pool, kMiB, first);
    void* const b = Take(*pool, kMiB, second);
    ASSERT_TRUE(device_->Fill(a, 5, kMiB, first).ok());
    ASSERT_TRUE(device_->SynchronizeStream(first).ok());
    device_->HoldCopies();
    ASSERT_TRUE(device_->Copy(read.data(), a, kMiB, CopyDirection::kFromDevice, first).ok());
    Free(*pool, a, first);
    Free(*pool, b, second);
    std::atomic<bool> released = false;
    std::atomic<bool> is_over = false;
    const std::int64_t waits = device_->CountCalls(Call::kSynchronizeEvent);
    std::thread releases([&] {
      while (device_->CountCalls(Call::kSynchronizeEvent) == waits) {
        if (is_over) break;
        std::this_thread::yield();
      }
      released = true;
      device_->ReleaseCopies();
    });
    if (trims) {
      EXPECT_EQ(*pool->Trim(), 2 * kMiB);
      EXPECT_TRUE(released);
    } else {
      void* const all = Take(*pool, 2 * kMiB, second);
      EXPECT_TRUE(released);
      Free(*pool, all, second);
    }
    is_over = true;
    releases.join();
    EXPECT_EQ(std::count(read.begin(), read.end(), 5), kMiB);
  }
}

TEST_F(SegmentsTest, OffsetsStayBounded) {
  const Stream stream = NewStream();
  auto pool = NewPool({.max_bytes = 256 * kKiB});
  std::mt19937 random(11);
  std::vector<void*> live;
  std::int64_t highest = 0;
  for (int i = 0; i < 20'000; ++i) {
    const absl::StatusOr<void*> p = pool->Allocate(1 + random() % (1 << random() % 18), stream);
    if (p.ok()) {
      live.push_back(*p);
      highest = std::max(highest, pool->OffsetOf(*p));
    }
    while (!live.empty() && (!p.ok() || random() % 2 == 0)) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(pool->Free(live.back(), stream).ok());
      live.pop_back();
      if (random() % 4 == 0) break;
    }
    if (random() % 8 == 0) {
      ASSERT_TRUE(pool->Trim(random() % (256 * kKiB)).ok());
    }
  }
  EXPECT_GT(pool->Stats().growths, 400);
  EXPECT_LT(highest, kMiB);
  for (void* const p : live) Free(*pool, p, stream);
}

TEST_F(SegmentsTest, StayOnTheBooksWhenTheDeviceKeepsThem) {
  const Stream stream = NewStream();
  auto pool = NewPool({.max_bytes = 2 * kMiB});
  void* const a = Take(*pool, kMiB, stream);
  void* const b = Take(*pool, kMiB, stream);
  Free(*pool, a, stream);
  Free(*pool, b, stream);
  device_->FailCall(Call::kFreeMemory, 2);
  EXPECT_EQ(pool->Allocate(2 * kMiB, stream).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  EXPECT_EQ(pool->Stats().reserved_bytes, kMiB);
  EXPECT_EQ(device_->used_bytes(), kMiB);
  void* const c = Take(*pool, kMiB, stream);
  std::memset(c, 1, kMiB);
  Free(*pool, c, stream);
  void* const all = Take(*pool, 2 * kMiB, stream);
  Free(*pool, all, stream);
  device_->FailCall(Call::kFreeMemory, 1);
  pool.reset();  // asks twice
  EXPECT_EQ(device_->used_bytes(), 0);
}

// Random sizes, streams and trims on a device that is sometimes short of memory. The segments that
// the device knows, and the live blocks in them, decide which requests must be served.
class SegmentsPropertyTest : public SegmentsTest,
                             public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr std::int64_t kBudget = 301 * kKiB;

  struct Buffer {
    char* address;
    std::int64_t bytes;
    char value;
  };

  // Returns the bytes of segments with live blocks.
  std::int64_t FixedBytes() const {
    std::int64_t bytes = 0;
    for (const auto& [begin, size] : device().segments()) {
      const auto end = begin + size;
      const auto is_inside = [&, first = begin](const Buffer& buffer) {
        return buffer.address >= first && buffer.address < end;
      };
      if (std::ranges::any_of(live_, is_inside)) bytes += size;
    }
    return bytes;
  }
  // Returns the most bytes that can be free in a segment beside its live blocks.
  std::int64_t LargestGap() const {
    std::int64_t largest = 0;
    for (const auto& [begin, size] : device().segments()) {
      char* at = begin;
      for (const auto& [address, bytes] : sorted_) {
        if (address < begin || address >= begin + size) continue;
        largest = std::max<std::int64_t>(largest, address - at);
        at = address + bytes;
      }
      largest = std::max<std::int64_t>(largest, begin + size - at);
    }
    return largest;
  }

  void CheckSnapshot(const Pool& pool) const {
    std::int64_t bytes = 0;
    for (const PoolBlock& block : pool.Snapshot()) {
      auto* const address = static_cast<char*>(block.address);
      ASSERT_GE(device().EndOfSegmentAt(address), address + block.bytes);
      bytes += block.bytes;
      if (block.used) {
        ASSERT_TRUE(sorted_.contains(address));
      }
    }
    const PoolStats stats = pool.Stats();
    ASSERT_EQ(bytes, device().used_bytes());
    ASSERT_EQ(bytes, stats.reserved_bytes);
    ASSERT_EQ(bytes, stats.free_bytes + stats.live_bytes);
    ASSERT_LE(stats.largest_hole_bytes, LargestGap());  // the caches of streams hold some of it
    ASSERT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
  }

  void Add(const Buffer& buffer) {
    const auto after = sorted_.upper_bound(buffer.address);
    ASSERT_TRUE(after == sorted_.end() || buffer.address + buffer.bytes <= after->first);
    ASSERT_TRUE(after == sorted_.begin() ||
                std::prev(after)->first + std::prev(after)->second <= buffer.address);
    sorted_[buffer.address] = (buffer.bytes + 511) & -512;
    live_.push_back(buffer);
  }
  Buffer TakeAny(std::mt19937& random) {
    std::swap(live_[random() % live_.size()], live_.back());
    const Buffer buffer = live_.back();
    live_.pop_back();
    sorted_.erase(buffer.address);
    return buffer;
  }

  TouchingDevice& device() const { return *touching_; }

  const std::unique_ptr<TouchingDevice> touching_ =
      std::make_unique<TouchingDevice>(*device_, 256 * kMiB);
  std::vector<Buffer> live_;
  std::map<char*, std::int64_t> sorted_;
};

INSTANTIATE_TEST_SUITE_P(Policies, SegmentsPropertyTest,
                         ::testing::ValuesIn(PlacementPolicyNames()), [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(SegmentsPropertyTest, ServeWhateverFitsAGapOrWhatLivesNowhere) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    auto pool = Pool::Create(&device(), {.max_bytes = kBudget, .placement = GetParam()}).value();
    const std::vector<Stream> streams = {NewStream(), NewStream(), NewStream()};
    std::mt19937 random(seed);
    std::atomic<int> damaged = 0;
    int refused = 0;
    const auto any_stream = [&] { return streams[seed == 1 ? 0 : random() % 3]; };
    const auto free_any = [&] {
      const Buffer buffer = TakeAny(random);
      const Stream stream = any_stream();
      for (const Stream other : streams) {  // the work so far, wherever it is
        const Event event = device().CreateEvent().value();
        ASSERT_TRUE(device().RecordEvent(event, other).ok());
        ASSERT_TRUE(device().WaitEvent(stream, event).ok());
        ASSERT_TRUE(device().DestroyEvent(event).ok());
      }
      const auto check = [buffer, &damaged] {
        if (std::count(buffer.address, buffer.address + buffer.bytes, buffer.value) !=
            buffer.bytes) {
          ++damaged;
        }
      };
      ASSERT_TRUE(device().CallHost(stream, check).ok());
      ASSERT_TRUE(pool->Free(buffer.address, stream).ok());
    };
    for (int step = 0; step < 3000; ++step) {
      const auto most = static_cast<std::int64_t>(1) << (9 + random() % 9);
      const std::int64_t bytes = 1 + static_cast<std::int64_t>(random()) % most;
      const std::int64_t rounded = (bytes + 511) & -512;
      if (step % 500 == 250) device().set_memory_bytes(kBudget / 2);
      if (step % 500 == 400) device().set_memory_bytes(kMiB);
      const std::int64_t limit = std::min(kBudget, device().memory_bytes());
      const bool must_serve =
          rounded <= kBudget && (rounded <= LargestGap() || FixedBytes() + rounded <= limit);
      const std::int64_t used = device().used_bytes();
      const Stream stream = any_stream();
      const auto p = pool->Allocate(static_cast<std::size_t>(bytes), stream);
      ASSERT_EQ(p.ok(), must_serve) << p.status() << " at step " << step;
      ASSERT_LE(device().used_bytes(), std::max(kBudget, used));
      if (p.ok()) {
        Add({static_cast<char*>(*p), bytes, static_cast<char>(random())});
        ASSERT_TRUE(
            device().Fill(*p, static_cast<std::uint8_t>(live_.back().value), bytes, stream).ok());
      } else {
        ASSERT_TRUE(absl::IsResourceExhausted(p.status())) << p.status();
        ++refused;
      }
      while (!live_.empty() && (random() % 2 == 0 || !p.ok())) {
        free_any();
        if (random() % 4 == 0) break;
      }
      if (random() % 16 == 0) {
        const auto keep = static_cast<std::int64_t>(random() % kBudget);
        const std::int64_t before = device().used_bytes();
        const std::int64_t given_back = *pool->Trim(keep);
        ASSERT_EQ(given_back, before - device().used_bytes());
        ASSERT_GE(device().used_bytes(), std::min(keep, before));
      }
      if (step % 10 == 0) CheckSnapshot(*pool);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(refused, 20);
    EXPECT_GT(device().count(), 100U);
    device().set_memory_bytes(kMiB);
    while (!live_.empty()) free_any();
    const auto all = pool->Allocate(kBudget, streams[0]);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_TRUE(pool->Free(*all, streams[0]).ok());
    pool.reset();
    EXPECT_EQ(damaged, 0);
    EXPECT_EQ(device().used_bytes(), 0);
  }
}

}  // namespace
}  // namespace tidepool
