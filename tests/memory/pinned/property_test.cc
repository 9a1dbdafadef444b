// SPDX-License-Identifier: Apache-2.0
// A pinned pool against a model that is a list of regions and a list of buffers, searched from one
// end to the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lib/memory/pinned/create_pools.h"
#include "tests/memory/pinned/model_device.h"
#include "tidepool/pinned_pool.h"

namespace tidepool {
namespace {

using testing::kKiB;
using testing::kMiB;
using testing::ModelDevice;

struct Buffer {
  std::int64_t bytes = 0;
  unsigned char pattern = 0;
};

struct Kind {
  const char* name;
  PinnedPoolOptions options;
  pinned::RegionSizes sizes = {};

  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

class PinnedModel {
 public:
  PinnedModel(const Kind& kind, std::uint64_t seed)
      : options_(kind.options),
        pool_(*pinned::CreatePinnedPool(&device_, kind.options, kind.sizes)),
        random_(seed) {}
  ~PinnedModel() {
    while (!live_.empty()) Free();
    pool_.reset();
    EXPECT_EQ(device_.registered_bytes(), 0);
  }

  void Step() {
    const std::uint64_t percent = Below(100);
    if (percent < 55) {
      Allocate();
    } else if (percent < 95) {
      if (!live_.empty()) Free();
    } else if (percent < 97) {
      Trim();
    } else {
      Reserve();
    }
    Check();
  }

 private:
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  std::int64_t Rounded(std::int64_t bytes) const {
    return (bytes + options_.alignment - 1) / options_.alignment * options_.alignment;
  }
  static std::int64_t Pages(std::int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

  // Returns a size of any number of bits up to 21, or just above a power of two.
  std::size_t AnySize() {
    const std::uint64_t power = std::uint64_t{1} << Below(22);
    return static_cast<std::size_t>(Below(2) == 0 ? power + 1 : power + Below(power));
  }

  // Returns the holes of a region, each with its address and size.
  std::vector<std::pair<char*, std::int64_t>> Holes(char* region, std::int64_t bytes) const {
    std::vector<std::pair<char*, std::int64_t>> holes;
    char* at = region;
    for (const auto& [address, buffer] : live_) {
      if (address < region || address >= region + bytes) continue;
      if (address > at) holes.emplace_back(at, address - at);
      at = address + Rounded(buffer.bytes);
    }
    if (at < region + bytes) holes.emplace_back(at, region + bytes - at);
    return holes;
  }

  std::int64_t LargestHole() const {
    std::int64_t largest = 0;
    for (const auto& [region, bytes] : device_.regions()) {
      for (const auto& [begin, size] : Holes(region, bytes)) largest = std::max(largest, size);
    }
    return largest;
  }

  std::int64_t BytesInRegionsWithLiveBuffers() const {
    std::int64_t sum = 0;
    for (const auto& [region, bytes] : device_.regions()) {
      const auto holes = Holes(region, bytes);
      if (holes.size() != 1 || holes[0].second != bytes) sum += bytes;
    }
    return sum;
  }

  void Allocate() {
    const std::size_t bytes = AnySize();
    const auto wanted = static_cast<std::int64_t>(bytes);
    const std::int64_t largest = LargestHole();
    const bool can_grow =
        options_.may_grow &&
        Pages(Rounded(wanted)) <= pool_->Stats().max_bytes - BytesInRegionsWithLiveBuffers();
    const std::int64_t pins = pool_->Stats().pins;
    const absl::StatusOr<void*> p = Below(2) == 0
                                        ? pool_->Allocate(bytes)
                                        : pool_->AllocateBlocking(bytes, absl::InfinitePast());
    ASSERT_EQ(p.ok(), Rounded(wanted) <= largest || can_grow) << p.status();
    if (Rounded(wanted) <= largest) {
      EXPECT_EQ(pool_->Stats().pins, pins) << "there was room";
    }
    if (!p.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(p.status()) || absl::IsDeadlineExceeded(p.status()))
          << p.status();
      return;
    }
    auto* const address = static_cast<char*>(*p);
    const Buffer buffer = {wanted, static_cast<unsigned char>(Below(256))};
    std::memset(address, buffer.pattern, bytes);
    live_[address] = buffer;
  }

  void Free() {
    auto chosen = live_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(Below(live_.size())));
    const auto [address, buffer] = *chosen;
    for (const std::int64_t at : {std::int64_t{0}, buffer.bytes / 2, buffer.bytes - 1}) {
      ASSERT_EQ(static_cast<unsigned char>(address[at]), buffer.pattern);
    }
    live_.erase(chosen);
    ASSERT_TRUE(pool_->Free(address).ok());
    EXPECT_FALSE(pool_->Free(address).ok());
  }

  void Trim() {
    const std::int64_t held = device_.registered_bytes();
    const std::int64_t needed = BytesInRegionsWithLiveBuffers();
    const auto keep = static_cast<std::int64_t>(Below(8) * static_cast<std::uint64_t>(kMiB));
    const absl::StatusOr<std::int64_t> trimmed = pool_->Trim(keep);
    ASSERT_TRUE(trimmed.ok()) << trimmed.status();
    EXPECT_EQ(held - *trimmed, device_.registered_bytes());
    EXPECT_GE(device_.registered_bytes(), std::min(held, std::max(keep, needed)));
    if (keep == 0) {
      EXPECT_EQ(device_.registered_bytes(), needed);
    }
  }

  void Reserve() {
    const auto bytes =
        static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(pool_->Stats().max_bytes) + 1));
    ASSERT_TRUE(pool_->Reserve(bytes).ok());
    EXPECT_GE(device_.registered_bytes(), bytes);
  }

  void Check() {
    const PinnedPoolStats stats = pool_->Stats();
    std::int64_t asked = 0;
    std::int64_t rounded = 0;
    char* end = nullptr;
    for (const auto& [address, buffer] : live_) {
      ASSERT_GE(address, end) << "overlap";
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(address) %
                    static_cast<std::uintptr_t>(options_.alignment),
                0);
      end = address + Rounded(buffer.bytes);
      asked += buffer.bytes;
      rounded += Rounded(buffer.bytes);
      bool is_in_one_region = false;
      for (const auto& [region, bytes] : device_.regions()) {
        is_in_one_region |= address >= region && end <= region + bytes;
      }
      ASSERT_TRUE(is_in_one_region);
    }
    peak_asked_ = std::max(peak_asked_, asked);
    peak_rounded_ = std::max(peak_rounded_, rounded);
    ASSERT_EQ(stats.asked_bytes, asked);
    ASSERT_EQ(stats.live_bytes, rounded);
    ASSERT_EQ(stats.peak_asked_bytes, peak_asked_);
    ASSERT_EQ(stats.peak_live_bytes, peak_rounded_);
    ASSERT_EQ(stats.live_count, static_cast<std::int64_t>(live_.size()));
    ASSERT_EQ(stats.reserved_bytes, device_.registered_bytes());
    ASSERT_EQ(stats.free_bytes, device_.registered_bytes() - rounded);
    ASSERT_EQ(stats.largest_hole_bytes, LargestHole());
    ASSERT_EQ(stats.regions, static_cast<std::int64_t>(device_.regions().size()));
    ASSERT_LE(device_.registered_bytes(), options_.max_bytes);
    ASSERT_TRUE(pool_->CheckInvariants().ok()) << pool_->CheckInvariants();
  }

  ModelDevice device_;
  const PinnedPoolOptions options_;
  std::unique_ptr<PinnedPool> pool_;
  std::mt19937_64 random_;
  std::map<char*, Buffer> live_;
  std::int64_t peak_asked_ = 0;
  std::int64_t peak_rounded_ = 0;
};

const Kind kKinds[] = {
    {"WholeBudget", {.max_bytes = 8 * kMiB}},
    {"Pages", {.max_bytes = 8 * kMiB, .alignment = 4096}},
    {"ManyRegions", {.max_bytes = 8 * kMiB + 4096, .alignment = 64}, {.most_bytes = 3 * kMiB}},
    {"Growing",
     {.max_bytes = 8 * kMiB, .initial_bytes = 0, .may_grow = true},
     {.growth_bytes = kMiB}},
    {"GrowingExactly",
     {.max_bytes = 9 * kMiB, .initial_bytes = 2 * kMiB, .may_grow = true},
     {.growth_bytes = 0}},
    {"OnReserve", {.max_bytes = 8 * kMiB, .initial_bytes = kMiB}},
};

class PinnedPropertyTest : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, PinnedPropertyTest, ::testing::ValuesIn(kKinds),
                         [](const auto& test) { return test.param.name; });

TEST_P(PinnedPropertyTest, DoesAsTheModel) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    PinnedModel model(GetParam(), seed);
    for (int i = 0; i < 200; ++i) {
      model.Step();
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
  }
}

// Threads keep patterns in their buffers, so memory that two threads have at once is found.
TEST_P(PinnedPropertyTest, ThreadsShareIt) {
  ModelDevice device;
  const auto pool = *pinned::CreatePinnedPool(&device, GetParam().options, GetParam().sizes);
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::pair<unsigned char*, std::size_t>> live;
    const auto pattern = static_cast<unsigned char>(seed + 1);
    const auto free_one = [&] {
      const auto [address, bytes] = live.back();
      live.pop_back();
      EXPECT_EQ(std::count(address, address + bytes, pattern), static_cast<std::ptrdiff_t>(bytes));
      EXPECT_TRUE(pool->Free(address).ok());
    };
    for (int i = 0; i < 400; ++i) {
      // A thread that holds buffers must not wait: other threads may wait for these buffers.
      if (live.size() >= 4 || (!live.empty() && random() % 2 == 0)) {
        free_one();
        continue;
      }
      const std::size_t bytes = 1 + random() % (64 * kKiB);
      const absl::StatusOr<void*> p =
          live.empty() ? pool->AllocateBlocking(bytes) : pool->Allocate(bytes);
      if (!p.ok()) continue;
      auto* const address = static_cast<unsigned char*>(*p);
      std::fill_n(address, bytes, pattern);
      live.emplace_back(address, bytes);
      if (i % 50 == 0) {
        EXPECT_TRUE(pool->Trim().ok());
      }
      if (i % 50 == 25) {
        EXPECT_TRUE(pool->Reserve(GetParam().options.max_bytes / 2).ok());
      }
    }
    while (!live.empty()) free_one();
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->Stats().live_count, 0);
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
}

// Each call of the device fails once, wherever it is made.
TEST(PinnedFaultsTest, AFailedCallIsReportedAndChangesNothingElse) {
  for (const auto call :
       {HostDevice::Call::kRegisterHostMemory, HostDevice::Call::kUnregisterHostMemory}) {
    for (std::int64_t n = 1;; ++n) {
      ModelDevice device;
      device.host().FailCall(call, n);
      bool failed = false;
      const auto twice = [&](const std::function<absl::Status()>& operation) {
        absl::Status status = operation();
        if (status.ok()) return;
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
        EXPECT_FALSE(failed) << status;
        failed = true;
        EXPECT_TRUE(operation().ok());
      };
      {
        std::unique_ptr<PinnedPool> pool;
        twice([&] {
          auto created = pinned::CreatePinnedPool(
              &device, {.max_bytes = 4 * kMiB, .initial_bytes = 2 * kMiB, .may_grow = true},
              {.growth_bytes = 0, .most_bytes = kMiB});
          if (created.ok()) pool = *std::move(created);
          EXPECT_LE(device.registered_bytes(), 2 * kMiB);
          return created.status();
        });
        std::vector<void*> live;
        const auto allocate = [&](std::size_t bytes) {
          twice([&] {
            const absl::StatusOr<void*> p = pool->Allocate(bytes);
            if (p.ok()) live.push_back(*p);
            EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
            return p.status();
          });
        };
        const auto free_all = [&] {
          for (void* const p : live) EXPECT_TRUE(pool->Free(p).ok());
          live.clear();
        };
        for (int i = 0; i < 4; ++i) allocate(kMiB);
        free_all();
        allocate(2 * kMiB);  // two regions are given back for it
        free_all();
        twice([&] { return pool->Trim(kMiB).status(); });
        twice([&] { return pool->Reserve(4 * kMiB); });
        EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
        EXPECT_EQ(pool->Stats().reserved_bytes, device.registered_bytes());
      }
      EXPECT_EQ(device.registered_bytes(), 0)
          << "a call that failed once is tried again in the end";
      if (device.host().CountCalls(call) < n) {
        EXPECT_GT(n, 5) << "the life is too short";
        EXPECT_FALSE(failed);
        break;
      }
    }
  }
}

TEST(PinnedFaultsTest, MemoryThatTheDeviceKeepsStaysMapped) {
  class Keeps final : public testing::ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    absl::Status UnregisterHostMemory(void* address) override {
      kept = static_cast<char*>(address);
      return absl::InternalError("kept");
    }
    char* kept = nullptr;
  };
  const auto host = *HostDevice::Create({.memory_bytes = kMiB});
  Keeps device(*host);
  ::testing::internal::CaptureStderr();
  {
    const auto pool = *PinnedPool::Create(&device, {.max_bytes = kMiB});
    EXPECT_FALSE(pool->Trim().ok());
    EXPECT_EQ(pool->Stats().reserved_bytes, kMiB);
    void* const buffer = *pool->Allocate(kMiB);
    EXPECT_TRUE(pool->Free(buffer).ok());
  }
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("cannot give its memory back"),
            std::string::npos);
  ASSERT_NE(device.kept, nullptr);
  device.kept[kMiB - 1] = 1;  // faults if it is not mapped
}

}  // namespace
}  // namespace tidepool
