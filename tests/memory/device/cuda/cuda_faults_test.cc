// SPDX-License-Identifier: Apache-2.0
// Each call of CUDA in a device's life fails once. The caller gets an error, no memory is lost, the
// thread's current device and last error stay unchanged, and the next try succeeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/memory/device/cuda/stand_in.h"
#include "tests/memory/pool/memory_store.h"
#include "tidepool/cuda_device.h"
#include "tidepool/pool.h"

namespace tidepool {
namespace {

class CudaFaultsTest : public ::testing::Test {
 protected:
  CudaFaultsTest() { ConfigureStandIn({}); }
  ~CudaFaultsTest() override { ConfigureStandIn({}); }

  // Tries an operation twice. A first failure must carry CUDA's description; a second failure is an
  // error of the test.
  void Try(const std::function<absl::Status()>& operation) {
    const absl::Status first = operation();
    int current = -1;
    // These calls may be the calls that fail, and no caller has seen their error yet.
    if (cudaGetDevice(&current) == cudaSuccess) {
      EXPECT_EQ(current, 1);
    }
    static_cast<void>(cudaGetLastError());
    if (first.ok()) return;
    ++failures_;
    EXPECT_TRUE(absl::IsUnavailable(first)) << first;
    EXPECT_NE(first.message().find("busy or unavailable"), std::string::npos) << first;
    const absl::Status second = operation();
    EXPECT_TRUE(second.ok()) << second;
  }

  template <typename T>
  T Get(const std::function<absl::StatusOr<T>()>& operation) {
    T result{};
    Try([&] {
      absl::StatusOr<T> tried = operation();
      if (!tried.ok()) return tried.status();
      result = *std::move(tried);
      return absl::OkStatus();
    });
    return result;
  }

  // Uses every function of the device while another device is current.
  void Play() {
    std::unique_ptr<CudaDevice> device;
    Try([&] {
      auto created = CudaDevice::Create({.ordinal = 0});
      if (created.ok()) device = *std::move(created);
      return created.status();
    });
    if (device == nullptr) return;
    Try([&] { return device->FreeBytes().status(); });
    const std::int64_t granule = device->granularity();
    const auto first = Get<Stream>([&] { return device->CreateStream(); });
    const auto second = Get<Stream>([&] { return device->WrapStream(native_); });
    const auto legacy = Get<Stream>([&] { return device->WrapStream(nullptr); });
    const auto event = Get<Event>([&] { return device->CreateEvent(); });
    const auto memory = Get<void*>([&] { return device->AllocateMemory(4096); });
    const auto pinned = Get<void*>([&] { return device->AllocatePinned(4096); });
    std::vector<char> plain(4096);
    Try([&] { return device->RegisterHostMemory(plain.data(), 4096); });
    const auto range = Get<void*>([&] { return device->ReserveAddresses(2 * granule); });
    const auto physical = Get<PhysicalMemory>([&] { return device->CreatePhysical(granule); });
    Try([&] { return device->Map(range, physical); });
    Try([&] { return device->Fill(memory, 3, 4096, first); });
    Try([&] { return device->RecordEvent(event, first); });
    Try([&] { return device->WaitEvent(second, event); });
    Try([&] { return device->Copy(range, memory, 4096, CopyDirection::kOnDevice, second); });
    Try([&] { return device->QueryEvent(event).status(); });
    Try([&] { return device->SynchronizeStream(second); });
    Try([&] { return device->Copy(pinned, range, 4096, CopyDirection::kFromDevice, legacy); });
    bool ran = false;
    Try([&] { return device->CallHost(legacy, [&] { ran = true; }); });
    Try([&] { return device->RecordEvent(event, legacy); });
    Try([&] { return device->SynchronizeEvent(event); });
    EXPECT_TRUE(ran);
    EXPECT_EQ(static_cast<char*>(pinned)[4095], 3);
    Try([&] { return device->UnwrapStream(second); });
    Try([&] { return device->DestroyStream(first); });
    Try([&] { return device->RecordEvent(event, first); });
    Try([&] { return device->SynchronizeEvent(event); });
    Try([&] { return device->Unmap(range); });
    Try([&] { return device->ReleasePhysical(physical); });
    Try([&] { return device->ReleaseAddresses(range, 2 * granule); });
    Try([&] { return device->UnregisterHostMemory(plain.data()); });
    Try([&] { return device->FreePinned(pinned); });
    Try([&] { return device->FreeMemory(memory); });
    Try([&] { return device->DestroyEvent(event); });
    EXPECT_EQ(device->used_bytes(), 0);
    // Leaves an allocation to the destructor.
    const auto left = Get<void*>([&] { return device->ReserveAddresses(granule); });
    Try([&] {
      const absl::StatusOr<PhysicalMemory> more = device->CreatePhysical(granule);
      if (!more.ok()) return more.status();
      absl::Status status = device->Map(left, *more);
      if (!status.ok()) {
        EXPECT_TRUE(device->ReleasePhysical(*more).ok());
      }
      return status;
    });
    Try([&] { return device->AllocateMemory(4096).status(); });
    Try([&] { return device->RegisterHostMemory(plain.data(), 4096); });
    Try([&] { return device->CreateStream().status(); });
  }

  // Plays once without faults, and then once for each call of CUDA that this made, which fails.
  void FailEachCall(const std::function<void()>& play) {
    Begin();
    const long long before = cudartHostCountCalls(nullptr);
    play();
    ASSERT_EQ(failures_, 0);
    const long long calls = cudartHostCountCalls(nullptr) - before;
    for (long long n = 1; n <= calls; ++n) {
      Begin();
      cudartHostFailCall(nullptr, n, cudaErrorDevicesUnavailable);
      play();
      EXPECT_EQ(CountLive(), 1) << n;
      if (HasFailure()) {
        ADD_FAILURE() << "call " << n << " of " << calls;
        break;
      }
    }
  }

  std::unique_ptr<CudaDevice> NewDevice(CudaMemory kind) {
    std::unique_ptr<CudaDevice> device;
    Try([&] {
      auto created = CudaDevice::Create({.ordinal = 0, .memory = kind});
      if (created.ok()) device = *std::move(created);
      return created.status();
    });
    return device;
  }
  std::unique_ptr<Pool> NewPool(CudaDevice& device, const PoolOptions& options) {
    std::unique_ptr<Pool> pool;
    Try([&] {
      auto created = Pool::Create(&device, options);
      if (created.ok()) pool = *std::move(created);
      return created.status();
    });
    return pool;
  }

  // Wraps a native stream that existed before.
  void Begin() {
    ConfigureStandIn({});
    ASSERT_EQ(cudaStreamCreateWithFlags(&native_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    failures_ = 0;
  }

  cudaStream_t native_ = nullptr;
  int failures_ = 0;
};

TEST_F(CudaFaultsTest, FailTheCallAndNothingElse) {
  Begin();
  Play();
  ASSERT_EQ(failures_, 0);
  ASSERT_EQ(CountLive(), 1) << "but for the stream that is not the device's";
  Begin();
  const long long before = cudartHostCountCalls(nullptr);
  Play();
  const long long calls = cudartHostCountCalls(nullptr) - before;
  ASSERT_GT(calls, 100);
  int told = 0;
  for (long long n = 1; n <= calls; ++n) {
    Begin();
    cudartHostFailCall(nullptr, n, cudaErrorDevicesUnavailable);
    Play();
    told += failures_;
    EXPECT_LE(failures_, 1) << n;
    EXPECT_EQ(CountLive(), 1) << n;
    if (HasFailure()) {
      ADD_FAILURE() << "call " << n << " of " << calls;
      break;
    }
  }
  // The other failures hit calls of the test itself, calls that restore the thread's current
  // device, or calls without a caller to report to: in the destructor, and for streams that are
  // gone.
  EXPECT_GT(told, calls / 3);
}

// Does the same for a pool on the device, with virtual memory, managed segments and other segments.
class CudaPoolFaultsTest
    : public CudaFaultsTest,
      public ::testing::WithParamInterface<std::tuple<CudaMemory, PoolMemory>> {};

INSTANTIATE_TEST_SUITE_P(Kinds, CudaPoolFaultsTest,
                         ::testing::Values(std::tuple(CudaMemory::kDevice, PoolMemory::kVirtual),
                                           std::tuple(CudaMemory::kDevice, PoolMemory::kSegments),
                                           std::tuple(CudaMemory::kManaged,
                                                      PoolMemory::kAutomatic)));

TEST_P(CudaPoolFaultsTest, APoolSurvivesThem) {
  const auto [device_memory, pool_memory] = GetParam();
  FailEachCall([&, kind = device_memory, memory = pool_memory] {
    const std::unique_ptr<CudaDevice> device = NewDevice(kind);
    const auto first = Get<Stream>([&] { return device->CreateStream(); });
    const auto second = Get<Stream>([&] { return device->WrapStream(native_); });
    std::unique_ptr<Pool> pool =
        NewPool(*device, {.initial_bytes = 1 << 20, .max_bytes = 8 << 20, .memory = memory});
    std::vector<void*> live;
    for (int i = 0; i < 6; ++i) {
      const Stream stream = i % 2 == 0 ? first : second;
      live.push_back(Get<void*>([&] { return pool->Allocate(1 << 20, stream); }));
    }
    for (void* const address : live) Try([&] { return pool->Free(address, first); });
    void* const across = Get<void*>([&] { return pool->Allocate(3 << 20, second); });
    Try([&] { return pool->Free(across, second); });
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
    Try([&] { return pool->Trim().status(); });
    pool.reset();
    EXPECT_EQ(device->used_bytes(), 0);
  });
}

// A region sleeps, in page-locked memory or in a store, and wakes after others had its memory.
TEST_F(CudaFaultsTest, ARegionSurvivesThem) {
  constexpr std::int64_t kBytes = 256 << 10;
  StoreFault no_fault;
  for (const bool has_store : {false, true}) {
    FailEachCall([&] {
      const std::unique_ptr<CudaDevice> device = NewDevice(CudaMemory::kDevice);
      const auto first = Get<Stream>([&] { return device->CreateStream(); });
      const auto second = Get<Stream>([&] { return device->WrapStream(native_); });
      std::unique_ptr<Pool> pool = NewPool(*device, {.max_bytes = 2 * kBytes});
      auto* const region = Get<Pool*>([&] { return pool->Region("weights"); });
      auto* const read =
          static_cast<char*>(Get<void*>([&] { return device->AllocatePinned(kBytes); }));
      void* const memory = Get<void*>([&] { return region->Allocate(kBytes, first); });
      Try([&] { return device->Fill(memory, 3, kBytes, first); });
      Try([&] {
        if (!has_store) return pool->PauseRegion("weights", PauseMode::kHost, first);
        return pool->PauseRegionInto("weights", std::make_unique<MemoryStore>(100 << 10, no_fault),
                                     first);
      });
      void* const other = Get<void*>([&] { return pool->Allocate(2 * kBytes, second); });
      Try([&] { return device->Fill(other, 9, 2 * kBytes, second); });
      Try([&] { return pool->Free(other, second); });
      Try([&] { return pool->ResumeRegion("weights", first); });
      EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants();
      Try([&] { return device->Copy(read, memory, kBytes, CopyDirection::kFromDevice, first); });
      Try([&] { return device->SynchronizeStream(first); });
      EXPECT_EQ(std::count(read, read + kBytes, 3), kBytes);
      Try([&] { return pool->Free(memory, first); });
      Try([&] { return device->FreePinned(read); });
      pool.reset();
      EXPECT_EQ(device->used_bytes(), 0);
    });
  }
}

}  // namespace
}  // namespace tidepool
