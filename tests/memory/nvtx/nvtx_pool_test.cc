// SPDX-License-Identifier: Apache-2.0
// The heaps and regions of pools that a C++ program makes.
#include <algorithm>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/memory/nvtx/memory_tool.h"
#include "tests/memory/nvtx/fixture.h"
#include "tests/support/range_checker.h"
#include "tests/support/region_checker.h"
#include "tests/support/sizes.h"
#include "tidepool/cuda_device.h"
#include "tidepool/nvtx_observer.h"
#include "tidepool/pool.h"

namespace tidepool {
namespace {

using nvtx_injection::Look;
using nvtx_injection::Region;
using nvtx_injection::Seen;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Kind {
  const char* name;
  PoolMemory memory;
  bool remap;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

// A pool with an observer. The observer calls another one.
class ObservedPool {
 public:
  ObservedPool(Device& device, PoolOptions options, PoolObserver* next = nullptr)
      : observer_(MakeNvtxObserver(device, next)) {
    EXPECT_NE(observer_, nullptr);
    options.recorder = observer_.get();
    pool_ = Pool::Create(&device, options).value();
  }
  Pool& operator*() { return *pool_; }
  Pool* operator->() { return pool_.get(); }

 private:
  std::unique_ptr<PoolObserver> observer_;
  std::unique_ptr<Pool> pool_;
};

class NvtxPoolTest : public NvtxFixture, public ::testing::WithParamInterface<Kind> {
 protected:
  static PoolOptions Options(PoolOptions options) {
    options.memory = GetParam().memory;
    options.remap = GetParam().remap;
    return options;
  }
  static bool InSegments() { return GetParam().memory == PoolMemory::kSegments; }
  static std::vector<Region> Regions() {
    std::vector<Region> regions;
    for (const auto& heap : Look().heaps) {
      regions.insert(regions.end(), heap.regions.begin(), heap.regions.end());
    }
    return regions;
  }
  // Compares the live regions with the used blocks of a pool.
  static void ExpectRegionsOf(const Pool& pool) {
    std::vector<const void*> used;
    for (const PoolBlock& block : pool.Snapshot()) {
      if (block.used) used.push_back(block.address);
    }
    std::vector<const void*> registered;
    for (const Region& region : Regions()) registered.push_back(region.begin);
    std::ranges::sort(used);
    std::ranges::sort(registered);
    EXPECT_EQ(registered, used);
  }

  const std::unique_ptr<CudaDevice> device_ = CudaDevice::Create({}).value();
  const Stream stream_ = device_->CreateStream().value();
};

INSTANTIATE_TEST_SUITE_P(Kinds, NvtxPoolTest,
                         ::testing::Values(Kind{"virtual", PoolMemory::kVirtual, false},
                                           Kind{"remapping", PoolMemory::kVirtual, true},
                                           Kind{"segments", PoolMemory::kSegments, false}),
                         [](const auto& test) { return std::string(test.param.name); });

// A region of a pool is another heap; its pauses go to the next observer alone.
TEST_P(NvtxPoolTest, RegistersMemoryOfRegions) {
  if (InSegments()) return;  // has none
  testing::RegionChecker books(8 * kMiB);
  ObservedPool pool(*device_, Options({.initial_bytes = kMiB, .max_bytes = 8 * kMiB}), &books);
  Pool* const weights = *pool->Region("weights");
  EXPECT_THAT(Look().heaps, SizeIs(2));
  void* const address = weights->Allocate(1000, stream_).value();
  EXPECT_THAT(Regions(), SizeIs(1));
  EXPECT_FALSE(weights->Allocate(9 * kMiB, stream_).ok());
  ASSERT_TRUE(pool->PauseRegion("weights", PauseMode::kDiscard, stream_).ok());
  EXPECT_TRUE(books.BooksOf("weights").is_asleep);
  EXPECT_THAT(Regions(), SizeIs(1));
  ASSERT_TRUE(pool->ResumeRegion("weights", stream_).ok());
  EXPECT_FALSE(books.BooksOf("weights").is_asleep);
  EXPECT_TRUE(books.BooksOf("weights").live.contains(address));
  EXPECT_EQ(books.BooksOf("weights").failures, 1);
  EXPECT_TRUE(pool->Free(address, stream_).ok());
  EXPECT_THAT(Regions(), SizeIs(0));
}

TEST_P(NvtxPoolTest, RegistersTheBytesThatWereAskedFor) {
  ObservedPool pool(*device_, Options({.initial_bytes = kMiB, .max_bytes = 4 * kMiB}));
  const std::vector<nvtx_injection::Heap> heaps = Look().heaps;
  ASSERT_THAT(heaps, SizeIs(1));
  EXPECT_EQ(heaps[0].name, "tidepool pool on cuda:0");
  EXPECT_GE(heaps[0].bytes, kMiB);
  void* const first = pool->Allocate(1000, stream_).value();
  pool->Mark("forward");
  void* const second = pool->Allocate(1, stream_).value();
  pool->Mark(std::string(100, 'x') + "\n");
  void* const third = pool->Allocate(7, stream_).value();
  std::vector<Region> regions = Regions();
  ASSERT_THAT(regions, SizeIs(3));
  std::ranges::sort(regions, {}, &Region::name);
  EXPECT_EQ(regions[0].begin, first);
  EXPECT_EQ(regions[0].bytes, 1000);
  EXPECT_EQ(regions[0].name, "allocation 0");
  EXPECT_EQ(regions[1].begin, second);
  EXPECT_EQ(regions[1].bytes, 1);
  EXPECT_EQ(regions[1].name, "allocation 1 in forward");
  EXPECT_EQ(regions[2].name, "allocation 2 in " + std::string(33, 'x'));
  for (void* const address : {first, second, third}) {
    EXPECT_TRUE(pool->Free(address, stream_).ok());
  }
  EXPECT_THAT(Regions(), IsEmpty());
}

TEST_P(NvtxPoolTest, FollowsGrowthTrimAndRefusals) {
  testing::RangeChecker checker;
  ObservedPool pool(*device_, Options({.max_bytes = 16 * kMiB}), &checker);
  std::vector<void*> live;
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    if (live.empty() || random() % 5 < 3) {
      const absl::StatusOr<void*> address = pool->Allocate(1 + random() % kMiB, stream_);
      if (address.ok()) live.push_back(*address);
    } else {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_TRUE(pool->Free(live.back(), stream_).ok());
      live.pop_back();
    }
    if (i % 500 == 499) {
      EXPECT_TRUE(pool->Trim(random() % (8 * kMiB)).ok());
      ExpectRegionsOf(*pool);
    }
  }
  EXPECT_GT(pool->Stats().failures, 0);
  EXPECT_GT(pool->Stats().growths, 1);
  if (GetParam().remap) {
    EXPECT_GT(pool->Stats().remaps, 0);
  }
  EXPECT_EQ(checker.ranges(), Look().heaps.size()) << "the next observer sees the same";
  for (void* const address : live) EXPECT_TRUE(pool->Free(address, stream_).ok());
}

TEST_P(NvtxPoolTest, EndsRegionsWithTheirPool) {
  {
    ObservedPool pool(*device_, Options({.max_bytes = 4 * kMiB}));
    ASSERT_TRUE(pool->Allocate(1000, stream_).ok());
    ASSERT_TRUE(pool->Allocate(2 * kMiB, stream_).ok());
  }
  EXPECT_EQ(Look().regions_ended_with_heaps, 2);
}

TEST_P(NvtxPoolTest, ServesPoolsOfManyThreads) {
  constexpr int kThreads = 4;
  ObservedPool shared(*device_, Options({.max_bytes = 32 * kMiB}));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const Stream stream = device_->CreateStream().value();
      std::mt19937 random(static_cast<unsigned>(thread));
      for (int round = 0; round < 5; ++round) {
        ObservedPool own(*device_, Options({.max_bytes = 4 * kMiB}));
        for (int i = 0; i < 50; ++i) {
          void* const mine = own->Allocate(1 + random() % 9999, stream).value();
          void* const ours = shared->Allocate(1 + random() % 9999, stream).value();
          EXPECT_TRUE(shared->Free(ours, stream).ok());
          EXPECT_TRUE(own->Free(mine, stream).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Look().regions_ever, kThreads * 5 * 50 * 2);
}

TEST_P(NvtxPoolTest, LeavesNothingOfHundredsOfPools) {
  for (int i = 0; i < 300; ++i) {
    ObservedPool pool(*device_, Options({.initial_bytes = kMiB, .max_bytes = 2 * kMiB}));
    void* const address = pool->Allocate(1000, stream_).value();
    if (i % 100 != 0) {
      EXPECT_TRUE(pool->Free(address, stream_).ok());
    }
  }
  const Seen seen = Look();
  EXPECT_GE(seen.heaps_ever, 300);
  EXPECT_EQ(seen.regions_ever, 300);
  EXPECT_EQ(seen.unregistered_regions, 297);
}

TEST(ToolNameTest, HasOnlyCharactersThatToolsTake) {
  EXPECT_EQ(nvtx::ToolName("a b~"), "a b~");
  EXPECT_EQ(nvtx::ToolName("a\n\x7f\xc3\xa4"), "a????");
  EXPECT_EQ(nvtx::ToolName(std::string(50, 'a')), std::string(49, 'a'));
}

}  // namespace
}  // namespace tidepool
