// SPDX-License-Identifier: Apache-2.0
// A pool on a CUDA device. Memory that moves between streams of all kinds is never used by two
// owners at once, with held and slow copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/memory/device/cuda/stand_in.h"
#include "tests/support/never_waits.h"
#include "tests/support/rounds.h"
#include "tests/support/temporary_files.h"
#include "tidepool/copies/contents_stores.h"
#include "tidepool/cuda_device.h"
#include "tidepool/pool.h"

namespace tidepool {
namespace {

constexpr std::int64_t kBytes = 64 * kKiB;

class CudaPoolTest : public ::testing::Test {
 protected:
  explicit CudaPoolTest(std::int64_t copy_latency_ns = 0) {
    ConfigureStandIn({.copy_latency_ns = copy_latency_ns});
    device_ = *CudaDevice::Create({.ordinal = 1});
  }
  ~CudaPoolTest() override {
    device_.reset();
    ConfigureStandIn({});
  }

  Stream NewStream() { return *device_->CreateStream(); }
  Stream Wrapped(unsigned flags) {
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    cudaStream_t native = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&native, flags), cudaSuccess);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    return *device_->WrapStream(native);
  }

  // Frees memory on one stream under a held copy and reuses it on another stream. Returns whether
  // the copy still found the bytes that were written for it.
  bool IsIntactAfterReuse(Device& device, Stream first, Stream second,
                          PoolMemory memory = PoolMemory::kAutomatic) {
    const bool waits = dynamic_cast<testing::NeverWaits*>(&device) == nullptr;
    auto pool = Pool::Create(&device, {.max_bytes = kBytes, .memory = memory}).value();
    auto* const read = static_cast<char*>(*device.AllocatePinned(kBytes));
    void* const p = *pool->Allocate(kBytes, first);
    EXPECT_TRUE(device.Fill(p, 1, kBytes, first).ok());
    EXPECT_TRUE(device.SynchronizeStream(first).ok());
    cudartHostHoldCopies(1);
    EXPECT_TRUE(device.Copy(read, p, kBytes, CopyDirection::kFromDevice, first).ok());
    EXPECT_TRUE(pool->Free(p, first).ok());
    void* const q = *pool->Allocate(kBytes, second);
    EXPECT_EQ(p, q);
    EXPECT_TRUE(device.Fill(q, 2, kBytes, second).ok());
    const Event overwritten = *device.CreateEvent();
    EXPECT_TRUE(device.RecordEvent(overwritten, second).ok());
    if (!waits) {
      EXPECT_TRUE(device.SynchronizeEvent(overwritten).ok());
    }
    EXPECT_EQ(*device.QueryEvent(overwritten), !waits);
    cudartHostReleaseCopies(1);
    EXPECT_TRUE(device.SynchronizeStream(first).ok());
    EXPECT_TRUE(device.SynchronizeStream(second).ok());
    EXPECT_TRUE(pool->Free(q, second).ok());
    const bool is_intact = std::count(read, read + kBytes, 1) == kBytes;
    pool.reset();
    EXPECT_TRUE(device.FreePinned(read).ok());
    return is_intact;
  }

  std::unique_ptr<CudaDevice> device_;
};

TEST_F(CudaPoolTest, LetsTheNextStreamWaitOnTheDevice) {
  EXPECT_TRUE(IsIntactAfterReuse(*device_, NewStream(), NewStream()));
  EXPECT_TRUE(IsIntactAfterReuse(*device_, Wrapped(cudaStreamNonBlocking), NewStream()));
  EXPECT_TRUE(IsIntactAfterReuse(*device_, NewStream(), Wrapped(cudaStreamDefault)));
  const Stream legacy = *device_->WrapStream(nullptr);
  EXPECT_TRUE(IsIntactAfterReuse(*device_, legacy, NewStream()));
  EXPECT_TRUE(IsIntactAfterReuse(*device_, NewStream(), legacy));
  EXPECT_TRUE(IsIntactAfterReuse(*device_, legacy, *device_->WrapStream(cudaStreamPerThread)));
}

TEST_F(CudaPoolTest, LetsItWaitForSegmentsToo) {
  EXPECT_TRUE(IsIntactAfterReuse(*device_, NewStream(), NewStream(), PoolMemory::kSegments));
  device_ = *CudaDevice::Create({.ordinal = 1, .memory = CudaMemory::kManaged});
  EXPECT_TRUE(IsIntactAfterReuse(*device_, NewStream(), NewStream()));
}

TEST_F(CudaPoolTest, TakesSegmentsOfTheMemoryOfItsDevice) {
  constexpr std::int64_t kBudget = 32 * kBytes;
  for (const CudaMemory memory : {CudaMemory::kDevice, CudaMemory::kManaged}) {
    device_ = *CudaDevice::Create({.ordinal = 1, .memory = memory});
    const bool is_managed = memory == CudaMemory::kManaged;
    const char* const call = is_managed ? "cudaMallocManaged" : "cudaMalloc";
    const Stream stream = NewStream();
    const long long calls = cudartHostCountCalls(call);
    const long long created = cudartHostCountCalls("cuMemCreate");
    auto pool = Pool::Create(device_.get(), {.max_bytes = kBudget,
                                             .memory = is_managed ? PoolMemory::kAutomatic
                                                                  : PoolMemory::kSegments})
                    .value();
    std::vector<void*> blocks;
    for (int i = 0; i < 32; ++i) blocks.push_back(*pool->Allocate(kBytes, stream));
    EXPECT_GT(pool->Stats().growths, 1);
    EXPECT_EQ(cudartHostCountCalls(call) - calls, pool->Stats().growths);
    EXPECT_EQ(cudartHostCountCalls("cuMemCreate"), created);
    for (void* const block : blocks) {
      cudaPointerAttributes attributes;
      ASSERT_EQ(cudaPointerGetAttributes(&attributes, block), cudaSuccess);
      EXPECT_EQ(attributes.type, is_managed ? cudaMemoryTypeManaged : cudaMemoryTypeDevice);
      if (is_managed) std::memset(block, 1, kBytes);
      ASSERT_TRUE(pool->Free(block, stream).ok());
    }
    // The next request needs the memory of all blocks.
    void* const all = *pool->Allocate(kBudget, stream);
    EXPECT_EQ(device_->used_bytes(), kBudget);
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    ASSERT_TRUE(pool->Free(all, stream).ok());
    EXPECT_EQ(*pool->Trim(), kBudget);
    EXPECT_EQ(device_->used_bytes(), 0);
  }
}

// The device is smaller than the budget.
TEST_F(CudaPoolTest, GivesSegmentsBackWhenTheDeviceIsFull) {
  const Stream stream = NewStream();
  auto pool = Pool::Create(device_.get(), {.memory = PoolMemory::kSegments}).value();
  const std::int64_t quarter = device_->memory_bytes() / 4;
  void* const others = *device_->AllocateMemory(quarter);
  void* const first = *pool->Allocate(static_cast<std::size_t>(quarter), stream);
  void* const second = *pool->Allocate(static_cast<std::size_t>(quarter), stream);
  EXPECT_EQ(pool->Allocate(static_cast<std::size_t>(2 * quarter), stream).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(pool->Free(first, stream).ok());
  const absl::StatusOr<void*> large = pool->Allocate(static_cast<std::size_t>(2 * quarter), stream);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  for (void* const p : {second, *large}) ASSERT_TRUE(pool->Free(p, stream).ok());
  pool.reset();
  EXPECT_TRUE(device_->FreeMemory(others).ok());
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_F(CudaPoolTest, WouldBeSeenToBreakWithoutTheWait) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer reports the race that this test is about";
#endif
  testing::NeverWaits careless(*device_);
  EXPECT_FALSE(IsIntactAfterReuse(careless, NewStream(), NewStream()));
}

// With a single stream the pool records no events, and calls CUDA only to take its memory.
TEST_F(CudaPoolTest, CallsNothingOnTheSingleStreamPath) {
  for (const PoolMemory memory : {PoolMemory::kVirtual, PoolMemory::kSegments}) {
    auto pool =
        Pool::Create(device_.get(),
                     {.initial_bytes = 16 * kBytes, .max_bytes = 16 * kBytes, .memory = memory})
            .value();
    const Stream stream = Wrapped(cudaStreamNonBlocking);
    std::vector<void*> blocks = {*pool->Allocate(1, stream)};
    const long long calls = cudartHostCountCalls(nullptr);
    for (std::size_t i = 1; i < 1000; ++i) {
      blocks.push_back(*pool->Allocate(i, stream));
      if (i % 10 != 0) continue;
      for (void* const block : blocks) EXPECT_TRUE(pool->Free(block, stream).ok());
      blocks.clear();
    }
    EXPECT_EQ(cudartHostCountCalls(nullptr), calls);
    for (void* const block : blocks) EXPECT_TRUE(pool->Free(block, stream).ok());
  }
}

// Lets a region sleep in page-locked memory, compressed or in a file.
absl::Status PauseInAnyWay(Pool& pool, const char* tag, Stream stream, std::mt19937& random) {
  switch (random() % 8) {
    case 0:
      return pool.PauseRegionInto(tag, MakeCompressedStore({}).value(), stream);
    case 1:
      return pool.PauseRegionInto(tag, MakeFileStore(TemporaryFolder()).value(), stream);
    default:
      return pool.PauseRegion(tag, PauseMode::kHost, stream);
  }
}

// Three regions with more than the budget take turns, on streams of both kinds.
TEST_F(CudaPoolTest, LetsRegionsSleepAndWake) {
  constexpr std::int64_t kRegionBytes = 512 * kKiB;
  auto pool = Pool::Create(device_.get(), {.max_bytes = 2 * kRegionBytes}).value();
  const std::array streams = {NewStream(), Wrapped(cudaStreamNonBlocking)};
  const std::array<const char*, 3> tags = {"weights", "optimizer", "cache"};
  std::array<void*, 3> memory;
  auto* const read = static_cast<char*>(*device_->AllocatePinned(kRegionBytes));
  for (std::size_t i = 0; i < tags.size(); ++i) {
    memory[i] = *(*pool->Region(tags[i]))->Allocate(kRegionBytes, streams[0]);
    const auto value = static_cast<std::uint8_t>(i + 1);
    ASSERT_TRUE(device_->Fill(memory[i], value, kRegionBytes, streams[0]).ok());
    ASSERT_TRUE(pool->PauseRegion(tags[i], PauseMode::kHost, streams[0]).ok());
  }
  std::mt19937 random(1);
  for (int round = testing::Rounds(3000); round > 0; --round) {
    const std::size_t i = random() % tags.size();
    const Stream stream = streams[random() % streams.size()];
    const absl::Status resumed = pool->ResumeRegion(tags[i], stream);
    ASSERT_TRUE(resumed.ok()) << resumed;
    ASSERT_TRUE(
        device_->Copy(read, memory[i], kRegionBytes, CopyDirection::kFromDevice, stream).ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
    EXPECT_EQ(std::count(read, read + kRegionBytes, static_cast<char>(i + 1)), kRegionBytes);
    const absl::Status paused = PauseInAnyWay(*pool, tags[i], stream, random);
    ASSERT_TRUE(paused.ok()) << paused;
    ASSERT_LE(device_->used_bytes(), 2 * kRegionBytes);
    ASSERT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  }
  std::int64_t copied = 0;
  for (const RegionStats& region : pool->RegionStatistics()) copied += region.copied_in_bytes;
  EXPECT_GT(copied, testing::Rounds(500) * kRegionBytes);
  for (void* const address : memory) EXPECT_TRUE(pool->Free(address, streams[0]).ok());
  EXPECT_TRUE(device_->FreePinned(read).ok());
}

// Small blocks of the pool are in slabs of their streams, in memory that regions lent.
TEST_F(CudaPoolTest, RegionsSleepBesideSlabs) {
  constexpr std::int64_t kBudget = 32 * kMiB;
  constexpr std::int64_t kRegionBytes = 8 * kMiB;
  constexpr std::size_t kSmall = 1024;
  auto pool = Pool::Create(device_.get(), {.max_bytes = kBudget}).value();
  const std::array streams = {NewStream(), NewStream()};
  const std::vector<std::string_view> tags = {"weights", "cache"};
  auto* const read = static_cast<char*>(*device_->AllocatePinned(kRegionBytes));
  const auto expect_filled = [&](void* address, std::int64_t bytes, int value) {
    ASSERT_TRUE(device_->Copy(read, address, bytes, CopyDirection::kFromDevice, streams[0]).ok());
    ASSERT_TRUE(device_->SynchronizeStream(streams[0]).ok());
    EXPECT_EQ(std::count(read, read + bytes, static_cast<char>(value)), bytes);
  };
  std::vector<void*> memory;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    memory.push_back(*(*pool->Region(tags[i]))->Allocate(kRegionBytes, streams[0]));
    const auto value = static_cast<std::uint8_t>(i + 1);
    ASSERT_TRUE(device_->Fill(memory.back(), value, kRegionBytes, streams[0]).ok());
  }
  for (int round = 0; round < 4; ++round) {
    std::array pauses = {RegionPause{tags[0], PauseMode::kHost, nullptr},
                         RegionPause{tags[1], PauseMode::kHost, MakeCompressedStore({}).value()}};
    ASSERT_TRUE(pool->PauseRegions(pauses, streams[0]).ok());
    ASSERT_TRUE(pool->Free(*pool->Allocate(kBudget, streams[0]), streams[0]).ok());
    std::vector<void*> small;
    for (int i = 0; i < 100; ++i) {
      const Stream stream = streams[static_cast<std::size_t>(i % 2)];
      small.push_back(*pool->Allocate(kSmall, stream));
      ASSERT_TRUE(device_->Fill(small.back(), static_cast<std::uint8_t>(i), kSmall, stream).ok());
    }
    ASSERT_TRUE(device_->SynchronizeStream(streams[1]).ok());
    const absl::Status resumed = pool->ResumeRegions(tags, streams[0]);
    ASSERT_TRUE(resumed.ok()) << resumed;
    for (std::size_t i = 0; i < tags.size(); ++i) {
      expect_filled(memory[i], kRegionBytes, static_cast<int>(i) + 1);
    }
    for (int i = 0; i < 100; ++i) {
      expect_filled(small[static_cast<std::size_t>(i)], kSmall, i);
      ASSERT_TRUE(pool->Free(small[static_cast<std::size_t>(i)], streams[0]).ok());
    }
    ASSERT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  }
  for (void* const address : memory) EXPECT_TRUE(pool->Free(address, streams[0]).ok());
  EXPECT_TRUE(device_->FreePinned(read).ok());
}

// A graph keeps addresses, so each launch finds the contents that came back.
TEST_F(CudaPoolTest, AGraphFindsTheContentsOfARegionThatSlept) {
  constexpr std::int64_t kRegionBytes = 2 * kMiB;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t native = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  const Stream stream = *device_->WrapStream(native);
  auto pool = Pool::Create(device_.get(), {.max_bytes = 2 * kRegionBytes}).value();
  auto* const read = static_cast<char*>(*device_->AllocatePinned(kRegionBytes));
  void* const weights = *(*pool->Region("weights"))->Allocate(kRegionBytes, stream);
  void* const result = *pool->Allocate(kRegionBytes, stream);
  ASSERT_TRUE(device_->Fill(weights, 7, kRegionBytes, stream).ok());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(result, weights, kRegionBytes, cudaMemcpyDeviceToDevice, native),
            cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(pool->PauseRegion("weights", PauseMode::kHost, stream).ok());
    void* const other = *pool->Allocate(kRegionBytes, stream);  // in the memory of the weights
    ASSERT_TRUE(device_->Fill(other, 9, kRegionBytes, stream).ok());
    ASSERT_TRUE(pool->Free(other, stream).ok());
    ASSERT_TRUE(pool->ResumeRegion("weights", stream).ok());
    ASSERT_TRUE(device_->Fill(result, 0, kRegionBytes, stream).ok());
    ASSERT_EQ(cudaGraphLaunch(exec, native), cudaSuccess);
    ASSERT_TRUE(device_->Copy(read, result, kRegionBytes, CopyDirection::kFromDevice, stream).ok());
    ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
    EXPECT_EQ(std::count(read, read + kRegionBytes, 7), kRegionBytes);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (void* const address : {weights, result}) EXPECT_TRUE(pool->Free(address, stream).ok());
  EXPECT_TRUE(device_->FreePinned(read).ok());
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

// Whichever device is current, a region sleeps and wakes on its own.
TEST_F(CudaPoolTest, RegionsOfTwoDevicesSleepApart) {
  constexpr std::int64_t kRegionBytes = 2 * kMiB;
  const auto first = *CudaDevice::Create({.ordinal = 0});
  struct Side {
    CudaDevice* device;
    std::unique_ptr<Pool> pool;
    Stream stream;
    void* weights;
    void* read;
  };
  std::vector<Side> sides;
  for (CudaDevice* const device : {first.get(), device_.get()}) {
    Side& side = sides.emplace_back();
    side.device = device;
    side.pool = Pool::Create(device, {.max_bytes = kRegionBytes}).value();
    side.stream = *device->CreateStream();
    side.weights = *(*side.pool->Region("weights"))->Allocate(kRegionBytes, side.stream);
    side.read = *device->AllocatePinned(kRegionBytes);
    const auto value = static_cast<std::uint8_t>(sides.size());
    ASSERT_TRUE(device->Fill(side.weights, value, kRegionBytes, side.stream).ok());
  }
  for (int round = 0; round < 4; ++round) {
    ASSERT_EQ(cudaSetDevice(round % 2), cudaSuccess);
    for (const Side& side : sides) {
      ASSERT_TRUE(side.pool->PauseRegion("weights", PauseMode::kHost, side.stream).ok());
    }
    for (const Side& side : sides) {
      void* const other = *side.pool->Allocate(kRegionBytes, side.stream);
      ASSERT_TRUE(side.device->Fill(other, 9, kRegionBytes, side.stream).ok());
      ASSERT_TRUE(side.pool->Free(other, side.stream).ok());
    }
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const Side& side = sides[i];
      ASSERT_TRUE(side.pool->ResumeRegion("weights", side.stream).ok());
      ASSERT_TRUE(side.pool->AwaitContents(side.weights, kRegionBytes, side.stream).ok());
      ASSERT_TRUE(
          side.device
              ->Copy(side.read, side.weights, kRegionBytes, CopyDirection::kFromDevice, side.stream)
              .ok());
      ASSERT_TRUE(side.device->SynchronizeStream(side.stream).ok());
      const auto* const bytes = static_cast<const char*>(side.read);
      EXPECT_EQ(std::count(bytes, bytes + kRegionBytes, static_cast<char>(i + 1)), kRegionBytes);
    }
  }
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  for (Side& side : sides) {
    EXPECT_TRUE(side.device->FreePinned(side.read).ok());
    EXPECT_TRUE(side.pool->Free(side.weights, side.stream).ok());
    side.pool.reset();
  }
}

TEST_F(CudaPoolTest, KeepsTheOrderOfStreamsThatAreUnwrapped) {
  auto pool = Pool::Create(device_.get(), {.max_bytes = kBytes}).value();
  auto* const read = static_cast<char*>(*device_->AllocatePinned(kBytes));
  const Stream first = Wrapped(cudaStreamNonBlocking);
  const Stream second = NewStream();
  void* const p = *pool->Allocate(kBytes, first);
  ASSERT_TRUE(device_->Fill(p, 1, kBytes, first).ok());
  cudartHostHoldCopies(1);
  ASSERT_TRUE(device_->Copy(read, p, kBytes, CopyDirection::kFromDevice, first).ok());
  ASSERT_TRUE(pool->Free(p, first).ok());
  ASSERT_TRUE(device_->UnwrapStream(first).ok());
  void* const q = *pool->Allocate(kBytes, second);
  ASSERT_TRUE(device_->Fill(q, 2, kBytes, second).ok());
  cudartHostReleaseCopies(1);
  ASSERT_TRUE(device_->SynchronizeStream(second).ok());
  EXPECT_EQ(std::count(read, read + kBytes, 1), kBytes);
  EXPECT_TRUE(pool->Free(q, second).ok());
}

// Threads write patterns on one stream and check them on another, after slow copies. Only the pool
// keeps a pattern out of another pattern's memory.
class PatternStress {
 public:
  PatternStress(Device& device, Pool& pool, std::vector<Stream> streams)
      : device_(device), pool_(pool), streams_(std::move(streams)) {}

  void Run(unsigned threads, int steps) {
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads; ++i) workers.emplace_back([=, this] { Work(i, steps); });
    for (std::thread& worker : workers) worker.join();
    for (const Stream stream : streams_) EXPECT_TRUE(device_.SynchronizeStream(stream).ok());
  }

  int damaged() const { return damaged_; }
  int served() const { return served_; }

 private:
  static constexpr std::int64_t kLargest = 24 * kKiB;

  // Pinned memory for one pattern, on its way to the device and back.
  struct Slot {
    char* there;
    char* back;
    Event over;
  };

  void Work(unsigned seed, int steps) {
    std::mt19937 random(seed);
    std::vector<Slot> slots;
    for (int i = 0; i < 4; ++i) {
      slots.push_back({static_cast<char*>(*device_.AllocatePinned(kLargest)),
                       static_cast<char*>(*device_.AllocatePinned(kLargest)),
                       *device_.CreateEvent()});
    }
    for (int i = 0; i < steps; ++i) Step(random, slots[random() % slots.size()]);
    for (const Slot& slot : slots) {
      EXPECT_TRUE(device_.SynchronizeEvent(slot.over).ok());
      EXPECT_TRUE(device_.FreePinned(slot.there).ok());
      EXPECT_TRUE(device_.FreePinned(slot.back).ok());
    }
  }

  void Step(std::mt19937& random, const Slot& slot) {
    EXPECT_TRUE(device_.SynchronizeEvent(slot.over).ok());
    const auto bytes = static_cast<std::int64_t>(1 + random() % kLargest);
    const Stream writer = streams_[random() % streams_.size()];
    const Stream reader = streams_[random() % streams_.size()];
    const absl::StatusOr<void*> memory = pool_.Allocate(static_cast<std::size_t>(bytes), writer);
    if (!memory.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(memory.status())) << memory.status();
      return;
    }
    ++served_;
    std::generate(slot.there, slot.there + bytes, [&] { return static_cast<char>(random()); });
    EXPECT_TRUE(device_.Copy(*memory, slot.there, bytes, CopyDirection::kToDevice, writer).ok());
    EXPECT_TRUE(device_.RecordEvent(slot.over, writer).ok());
    EXPECT_TRUE(device_.WaitEvent(reader, slot.over).ok());
    EXPECT_TRUE(device_.Copy(slot.back, *memory, bytes, CopyDirection::kFromDevice, reader).ok());
    EXPECT_TRUE(device_
                    .CallHost(reader,
                              [this, slot, bytes] {
                                if (!std::equal(slot.there, slot.there + bytes, slot.back)) {
                                  ++damaged_;
                                }
                              })
                    .ok());
    EXPECT_TRUE(device_.RecordEvent(slot.over, reader).ok());
    if (random() % 2 == 0) {
      EXPECT_TRUE(pool_.Free(*memory, reader).ok());
    } else {
      EXPECT_TRUE(pool_.RecordUse(*memory, reader).ok());
      EXPECT_TRUE(pool_.Free(*memory, writer).ok());
    }
  }

  Device& device_;
  Pool& pool_;
  const std::vector<Stream> streams_;
  std::atomic<int> damaged_ = 0;
  std::atomic<int> served_ = 0;
};

class CudaPoolStressTest : public CudaPoolTest {
 protected:
  CudaPoolStressTest() : CudaPoolTest(20'000) {}

  std::vector<Stream> AllKinds() {
    return {NewStream(),
            NewStream(),
            Wrapped(cudaStreamNonBlocking),
            Wrapped(cudaStreamDefault),
            *device_->WrapStream(nullptr),
            *device_->WrapStream(cudaStreamPerThread)};
  }
};

class CudaPoolStressOfMemory : public CudaPoolStressTest,
                               public ::testing::WithParamInterface<CudaMemory> {};

INSTANTIATE_TEST_SUITE_P(Kinds, CudaPoolStressOfMemory,
                         ::testing::Values(CudaMemory::kDevice, CudaMemory::kManaged),
                         [](const auto& instance) {
                           return instance.param == CudaMemory::kManaged ? "managed" : "device";
                         });

TEST_P(CudaPoolStressOfMemory, SegmentsAreNotDamaged) {
  device_ = *CudaDevice::Create({.ordinal = 1, .memory = GetParam()});
  for (const std::string& policy : PlacementPolicyNames()) {
    auto pool = Pool::Create(
                    device_.get(),
                    {.max_bytes = 256 * kKiB, .memory = PoolMemory::kSegments, .placement = policy})
                    .value();
    PatternStress stress(*device_, *pool, AllKinds());
    stress.Run(4, 200);
    EXPECT_EQ(stress.damaged(), 0) << policy;
    EXPECT_GT(stress.served(), 100) << policy;
    EXPECT_EQ(pool->Stats().live_count, 0);
    EXPECT_GT(pool->Stats().growths, 1);
    EXPECT_LE(pool->Stats().peak_reserved_bytes, 256 * kKiB);
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    EXPECT_TRUE(pool->Trim().ok());
    EXPECT_EQ(device_->used_bytes(), 0);
  }
}

TEST_F(CudaPoolStressTest, DamagesNothing) {
  for (const std::string& policy : PlacementPolicyNames()) {
    auto pool = Pool::Create(device_.get(), {.max_bytes = 256 * kKiB, .placement = policy}).value();
    PatternStress stress(*device_, *pool, AllKinds());
    stress.Run(4, 200);
    EXPECT_EQ(stress.damaged(), 0) << policy;
    EXPECT_GT(stress.served(), 100) << policy;
    EXPECT_EQ(pool->Stats().live_count, 0);
    EXPECT_GT(pool->Stats().stream_waits, 0);
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
  }
}

TEST_F(CudaPoolStressTest, DamagesNothingOnTwoDevicesAtOnce) {
  const auto other = *CudaDevice::Create({.ordinal = 0});
  std::vector<std::thread> threads;
  for (Device* const device :
       {static_cast<Device*>(device_.get()), static_cast<Device*>(other.get())}) {
    threads.emplace_back([device] {
      auto pool = Pool::Create(device, {.max_bytes = 256 * kKiB}).value();
      PatternStress stress(*device, *pool, {*device->CreateStream(), *device->CreateStream()});
      stress.Run(2, 200);
      EXPECT_EQ(stress.damaged(), 0);
      EXPECT_GT(stress.served(), 100);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CudaPoolStressTest, WouldBeSeenToBreakWithoutTheWait) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer reports the race that this test is about";
#endif
  testing::NeverWaits careless(*device_);
  auto pool = Pool::Create(&careless, {.max_bytes = 64 * kKiB}).value();
  // The patterns themselves wait on the device that waits.
  PatternStress stress(*device_, *pool, {NewStream(), NewStream(), NewStream()});
  // The number of rounds until damage depends on the speed of the streams.
  for (int round = 0; round < 100 && stress.damaged() == 0; ++round) stress.Run(4, 50);
  EXPECT_GT(stress.damaged(), 0);
}

}  // namespace
}  // namespace tidepool
