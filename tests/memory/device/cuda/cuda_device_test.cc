// SPDX-License-Identifier: Apache-2.0
// Features of CUDA devices only: wrapped streams, the caller's current device, errors, and drivers
// that lack functions.
#include "tidepool/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/memory/device/cuda/stand_in.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class CudaDeviceTest : public ::testing::Test {
 protected:
  CudaDeviceTest() { ConfigureStandIn({}); }
  ~CudaDeviceTest() override {
    device_.reset();
    ConfigureStandIn({});
  }

  static cudaStream_t NewNative(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t native = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&native, flags), cudaSuccess);
    return native;
  }
  Event Recorded(Stream stream) {
    const Event event = *device_->CreateEvent();
    EXPECT_TRUE(device_->RecordEvent(event, stream).ok());
    return event;
  }
  bool IsOver(Event event) { return *device_->QueryEvent(event); }

  std::unique_ptr<CudaDevice> device_ = *CudaDevice::Create({});
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_->name(), "cuda:0");
  EXPECT_EQ(device_->ordinal(), 0);
  EXPECT_EQ(device_->memory_bytes(), 64 << 20);
  void* const memory = *device_->AllocateMemory(1 << 20);
  EXPECT_EQ(device_->used_bytes(), 1 << 20);
  EXPECT_EQ(*device_->FreeBytes(), 63 << 20);
  const PhysicalMemory physical = *device_->CreatePhysical(device_->granularity());
  EXPECT_EQ(device_->used_bytes(), (1 << 20) + device_->granularity());
  EXPECT_TRUE(device_->ReleasePhysical(physical).ok());
  EXPECT_TRUE(device_->FreeMemory(memory).ok());
  EXPECT_EQ(device_->used_bytes(), 0);
}

TEST_F(CudaDeviceTest, RefusesDevicesThatAreNotThere) {
  for (const int ordinal : {-1, 2, std::numeric_limits<int>::max()}) {
    const auto refused = CudaDevice::Create({.ordinal = ordinal});
    EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
    EXPECT_THAT(Message(refused.status()), HasSubstr("expected a number below 2"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CudaDevice::Create({.peers = {0}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CudaDevice::Create({.peers = {5}}).status()));
  device_.reset();
  ConfigureStandIn({.devices = 0});
  const auto refused = CudaDevice::Create({});
  EXPECT_TRUE(absl::IsUnavailable(refused.status()));
  EXPECT_EQ(Message(refused.status()),
            "cudaGetDeviceCount(): cudaErrorNoDevice (no CUDA-capable device is detected)");
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaDeviceTest, WrapsAStreamOnce) {
  const cudaStream_t native = NewNative();
  const Stream stream = *device_->WrapStream(native);
  EXPECT_EQ(*device_->WrapStream(native), stream);
  EXPECT_EQ(*device_->NativeStream(stream), native);
  const Stream created = *device_->CreateStream();
  EXPECT_EQ(*device_->WrapStream(*device_->NativeStream(created)), created);
  EXPECT_EQ(*device_->WrapStream(nullptr), *device_->WrapStream(cudaStreamLegacy));
  EXPECT_FALSE(*device_->WrapStream(nullptr) == *device_->WrapStream(cudaStreamPerThread));
  EXPECT_TRUE(absl::IsInvalidArgument(device_->UnwrapStream(created)));
  ASSERT_TRUE(device_->UnwrapStream(stream).ok());
  EXPECT_TRUE(absl::IsNotFound(device_->UnwrapStream(stream)));
  EXPECT_TRUE(absl::IsNotFound(device_->NativeStream(stream).status()));
  EXPECT_EQ(cudaStreamSynchronize(native), cudaSuccess) << "it is still there";
  EXPECT_FALSE(*device_->WrapStream(native) == stream);
  device_.reset();
  ConfigureStandIn({.dies_of_destroyed_streams = false});
  device_ = *CudaDevice::Create({});
  EXPECT_TRUE(absl::IsNotFound(
      device_->WrapStream(reinterpret_cast<cudaStream_t>(std::uintptr_t{0x1234560})).status()));
}

TEST_F(CudaDeviceTest, AWrappedStreamLivesOn) {
  const cudaStream_t native = NewNative();
  for (const bool by_destroying : {false, true}) {
    const Stream stream = *device_->WrapStream(native);
    const std::uint64_t epoch = device_->stream_epoch();
    std::latch latch(1);
    ASSERT_TRUE(device_->CallHost(stream, [&] { latch.wait(); }).ok());
    ASSERT_TRUE(
        (by_destroying ? device_->DestroyStream(stream) : device_->UnwrapStream(stream)).ok());
    EXPECT_GT(device_->stream_epoch(), epoch);
    const Event event = Recorded(stream);
    EXPECT_FALSE(IsOver(event));
    EXPECT_EQ(cudaStreamQuery(native), cudaErrorNotReady);
    latch.count_down();
    EXPECT_TRUE(device_->SynchronizeEvent(event).ok());
    EXPECT_EQ(cudaStreamSynchronize(native), cudaSuccess);
    static_cast<void>(cudaGetLastError());
  }
}

// A capture does not survive a wait for the device.
TEST_F(CudaDeviceTest, AHandleThatWasGivenOutAgainEndsNoCapture) {
  const cudaStream_t native = NewNative();
  const Stream stream = *device_->WrapStream(native);
  std::latch latch(1);
  ASSERT_TRUE(device_->CallHost(stream, [&] { latch.wait(); }).ok());
  ASSERT_EQ(cudaStreamDestroy(native), cudaSuccess);
  const cudaStream_t fresh = NewNative();
  ASSERT_EQ(fresh, native) << "the stand-in gives it out again";
  const cudaStream_t other = NewNative();
  ASSERT_EQ(cudaStreamBeginCapture(other, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_FALSE(*device_->WrapStream(fresh) == stream);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  const Event end = Recorded(stream);
  EXPECT_FALSE(IsOver(end)) << "the work of the old stream";
  latch.count_down();
  EXPECT_TRUE(device_->SynchronizeEvent(end).ok());
}

TEST_F(CudaDeviceTest, NoticesAHandleThatWasGivenOutAgain) {
  const cudaStream_t native = NewNative();
  const Stream stream = *device_->WrapStream(native);
  ASSERT_EQ(cudaStreamDestroy(native), cudaSuccess);
  ASSERT_EQ(NewNative(), native) << "the stand-in gives it out again";
  const std::uint64_t epoch = device_->stream_epoch();
  const Stream fresh = *device_->WrapStream(native);
  EXPECT_FALSE(fresh == stream);
  EXPECT_GT(device_->stream_epoch(), epoch);
  EXPECT_FALSE(device_->HasStream(stream));
  EXPECT_TRUE(device_->SynchronizeEvent(Recorded(stream)).ok());
}

// The stand-in ends the process of a program that names a destroyed stream.
TEST_F(CudaDeviceTest, AStreamWithoutAPromiseMayBeDestroyedBeforeItIsUnwrapped) {
  const cudaStream_t native = NewNative();
  const Stream stream = *device_->WrapStream(native, StreamPromise::kNone);
  EXPECT_TRUE(device_->MayEnd(stream));
  EXPECT_FALSE(device_->MayEnd(*device_->WrapStream(NewNative())));
  EXPECT_FALSE(device_->MayEnd(*device_->WrapStream(nullptr, StreamPromise::kNone)));
  std::latch latch(1);
  ASSERT_TRUE(device_->CallHost(stream, [&] { latch.wait(); }).ok());
  ASSERT_EQ(cudaStreamDestroy(native), cudaSuccess);
  const Event event = *device_->CreateEvent();
  ASSERT_TRUE(device_->RecordAll(event).ok());
  const std::uint64_t epoch = device_->stream_epoch();
  ASSERT_TRUE(device_->UnwrapStream(stream).ok());
  EXPECT_GT(device_->stream_epoch(), epoch);
  EXPECT_FALSE(device_->HasStream(stream));
  const Event end = Recorded(stream);
  EXPECT_FALSE(IsOver(event));
  EXPECT_FALSE(IsOver(end));
  latch.count_down();
  EXPECT_TRUE(device_->SynchronizeEvent(event).ok());
  EXPECT_TRUE(device_->SynchronizeEvent(end).ok());
  const cudaStream_t successor = NewNative();
  ASSERT_EQ(successor, native) << "the stand-in gives handles out again";
  EXPECT_FALSE(*device_->WrapStream(successor, StreamPromise::kNone) == stream);
}

TEST_F(CudaDeviceTest, WaitsForTheDeviceWhereTheDriverCannotRecordAllWork) {
  const cudaStream_t native = NewNative();
  void* const memory = *device_->AllocateMemory(512);
  const Stream stream = *device_->WrapStream(native, StreamPromise::kNone);
  ASSERT_TRUE(device_->Fill(memory, 1, 512, stream).ok());
  const long long waits = cudartHostCountCalls("cudaDeviceSynchronize");
  const long long records = cudartHostCountCalls("cuCtxRecordEvent");
  const Event event = *device_->CreateEvent();
  ASSERT_TRUE(device_->RecordAll(event).ok());
  EXPECT_EQ(cudartHostCountCalls("cudaDeviceSynchronize") - waits +
                cudartHostCountCalls("cuCtxRecordEvent") - records,
            1);
  cudartHostFailCall("cuCtxRecordEvent", 1, cudaErrorUnknown);
  const absl::Status failed = device_->RecordAll(event);
  EXPECT_THAT(Message(failed), HasSubstr("RecordAll: cuCtxRecordEvent("));
  EXPECT_TRUE(device_->RecordAll(event).ok());
  device_->NoteCapture(true);
  const long long calls = cudartHostCountCalls("cuCtxRecordEvent");
  EXPECT_TRUE(absl::IsFailedPrecondition(device_->RecordAll(event)));
  EXPECT_EQ(cudartHostCountCalls("cuCtxRecordEvent"), calls);
  device_->NoteCapture(false);
  EXPECT_TRUE(device_->RecordAll(event).ok());
  EXPECT_TRUE(device_->FreeMemory(memory).ok());
}

TEST_F(CudaDeviceTest, VirtualMemoryIsForNetworkCardsWhereTheDriverHasThat) {
  for (const int kind : {0, 1, 2}) {
    device_.reset();
    ConfigureStandIn({.network_memory = kind});
    device_ = *CudaDevice::Create({});
    EXPECT_EQ(device_->used_bytes(), 0);
    const std::int64_t granularity = device_->granularity();
    void* const address = *device_->ReserveAddresses(granularity);
    const PhysicalMemory memory = *device_->CreatePhysical(granularity);
    CudartHostLive live;
    cudartHostCountLive(&live);
    EXPECT_EQ(live.network_handles, kind == 1 ? 1 : 0);
    EXPECT_EQ(live.physical_handles, 1);
    EXPECT_TRUE(device_->Map(address, memory).ok()) << kind;
    EXPECT_TRUE(device_->Unmap(address).ok());
    EXPECT_TRUE(device_->ReleasePhysical(memory).ok());
    EXPECT_TRUE(device_->ReleaseAddresses(address, granularity).ok());
    EXPECT_EQ(device_->used_bytes(), 0);
  }
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

// A capture does not survive a question about its stream.
TEST_F(CudaDeviceTest, WrapsAStreamThatCaptures) {
  for (const bool is_known : {false, true}) {
    const cudaStream_t native = NewNative();
    Stream known;
    if (is_known) known = *device_->WrapStream(native);
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeRelaxed), cudaSuccess);
    const absl::StatusOr<Stream> stream = device_->WrapStream(native);
    ASSERT_TRUE(stream.ok()) << stream.status();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    if (is_known) {
      EXPECT_EQ(*stream, known);
    }
    EXPECT_EQ(*device_->WrapStream(native), *stream) << "its id is known now";
  }
}

TEST_F(CudaDeviceTest, ForgetsAllWrappedStreamsWithoutUsingThem) {
  const cudaStream_t destroyed = NewNative();
  const Stream created = *device_->CreateStream();
  std::vector<Stream> wrapped = {*device_->WrapStream(nullptr),
                                 *device_->WrapStream(cudaStreamPerThread),
                                 *device_->WrapStream(destroyed)};
  bool ran = false;
  ASSERT_TRUE(device_->CallHost(wrapped[2], [&] { ran = true; }).ok());
  ASSERT_EQ(cudaStreamDestroy(destroyed), cudaSuccess);
  ASSERT_TRUE(device_->ForgetWrappedStreams().ok());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(device_->HasStream(created));
  for (const Stream stream : wrapped) {
    EXPECT_FALSE(device_->HasStream(stream));
    EXPECT_TRUE(IsOver(Recorded(stream)));
  }
  EXPECT_FALSE(*device_->WrapStream(nullptr) == wrapped[0]);
}

TEST_F(CudaDeviceTest, RefusesStreamsOfOtherDevices) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const cudaStream_t native = NewNative();
  const auto refused = device_->WrapStream(native);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(Message(refused.status()), HasSubstr("device 1, expected one of device 0"));
  // The default stream belongs to the device, whichever device is current.
  const Stream stream = *device_->WrapStream(nullptr);
  std::latch latch(1);
  ASSERT_TRUE(device_->CallHost(stream, [&] { latch.wait(); }).ok());
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  latch.count_down();
  EXPECT_TRUE(device_->SynchronizeStream(stream).ok());
}

TEST_F(CudaDeviceTest, AThreadsOwnStreamIsInOrderForOtherThreads) {
  const Stream mine = *device_->WrapStream(cudaStreamPerThread);
  EXPECT_EQ(*device_->WrapStream(cudaStreamPerThread), mine);
  std::latch latch(1);
  std::vector<int> ran;
  ASSERT_TRUE(device_
                  ->CallHost(mine,
                             [&] {
                               latch.wait();
                               ran.push_back(1);
                             })
                  .ok());
  Event event;
  std::thread([&] {
    const Stream theirs = *device_->WrapStream(cudaStreamPerThread);
    EXPECT_FALSE(theirs == mine);
    event = Recorded(mine);
    EXPECT_FALSE(IsOver(event)) << "it stands for the other thread's work";
    EXPECT_TRUE(device_->CallHost(mine, [&] { ran.push_back(2); }).ok());
  }).join();
  ASSERT_TRUE(device_->CallHost(mine, [&] { ran.push_back(3); }).ok());
  latch.count_down();
  EXPECT_TRUE(device_->SynchronizeEvent(event).ok());
  EXPECT_TRUE(device_->SynchronizeStream(mine).ok());
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
  std::thread([&] {
    EXPECT_TRUE(device_->CallHost(mine, [&] { ran.push_back(4); }).ok());
    EXPECT_TRUE(device_->SynchronizeStream(mine).ok());
    EXPECT_EQ(ran.size(), 4U);
    EXPECT_TRUE(device_->UnwrapStream(mine).ok());
  }).join();
  EXPECT_FALSE(device_->HasStream(mine));
}

TEST_F(CudaDeviceTest, ErrorsSayWhichCallAndWhyAndLeaveNoneBehind) {
  cudartHostFailCall("cudaMalloc", 1, cudaErrorLaunchFailure);
  const absl::Status failed = device_->AllocateMemory(4096).status();
  EXPECT_TRUE(absl::IsInternal(failed));
  EXPECT_EQ(
      Message(failed),
      "AllocateMemory: cudaMalloc(4096): cudaErrorLaunchFailure (unspecified launch failure)");
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  void* const most = *device_->AllocateMemory(60 << 20);
  const absl::Status full = device_->AllocateMemory(10 << 20).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_EQ(Message(full),
            "AllocateMemory: cudaMalloc(10485760): cudaErrorMemoryAllocation (out of memory)");
  const absl::Status full_too = device_->CreatePhysical(10 << 20).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full_too));
  EXPECT_EQ(Message(full_too),
            "CreatePhysical: cuMemCreate(10485760): CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  EXPECT_TRUE(device_->FreeMemory(most).ok());
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaDeviceTest, ABrokenDeviceIsReported) {
  const Stream stream = *device_->CreateStream();
  const Event event = Recorded(stream);
  cudartHostBreakDevice(0, cudaErrorIllegalAddress);
  const absl::Status failed = device_->SynchronizeEvent(event);
  EXPECT_TRUE(absl::IsInternal(failed));
  EXPECT_THAT(Message(failed), HasSubstr("stays broken"));
  EXPECT_THAT(Message(device_->AllocateMemory(1).status()), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_THAT(Message(device_->CreatePhysical(device_->granularity()).status()),
              HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_TRUE(device_->DestroyStream(stream).code() == absl::StatusCode::kInternal);
}

// A context takes hundreds of MB of a GPU that the process may not use at all.
TEST_F(CudaDeviceTest, MakesNoContextOnOtherDevices) {
  device_.reset();
  ConfigureStandIn({.devices = 2});
  std::thread([] {
    const auto device = *CudaDevice::Create({.ordinal = 1});
    void* const memory = *device->AllocateMemory(512);
    const Stream stream = *device->CreateStream();
    EXPECT_TRUE(device->Fill(memory, 1, 512, stream).ok());
    const Event event = *device->CreateEvent();
    EXPECT_TRUE(device->RecordAll(event).ok());
    EXPECT_TRUE(device->SynchronizeEvent(event).ok());
    EXPECT_TRUE(device->FreeMemory(memory).ok());
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, 0) << "what the thread uses next";
  }).join();
  EXPECT_EQ(cudartHostHasContext(0), 0);
  EXPECT_EQ(cudartHostHasContext(1), 1);
  device_ = *CudaDevice::Create({});
  EXPECT_EQ(cudartHostHasContext(0), 1);
}

TEST_F(CudaDeviceTest, KeepsTheCallersDeviceCurrent) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const auto is_kept = [] {
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    return current == 1;
  };
  const auto second = *CudaDevice::Create({.ordinal = 0});
  EXPECT_TRUE(is_kept());
  const Stream stream = *second->CreateStream();
  void* const memory = *second->AllocateMemory(4096);
  EXPECT_TRUE(second->Fill(memory, 1, 4096, stream).ok());
  EXPECT_TRUE(second->SynchronizeStream(stream).ok());
  EXPECT_FALSE(second->FreeMemory(static_cast<char*>(memory) + 512).ok());
  EXPECT_TRUE(is_kept());
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
  EXPECT_EQ(attributes.device, 0);
  device_.reset();
  EXPECT_TRUE(is_kept());
}

TEST_F(CudaDeviceTest, MayHaveNoVirtualMemory) {
  device_.reset();
  ConfigureStandIn({.has_virtual_memory = false});
  device_ = *CudaDevice::Create({});
  EXPECT_EQ(device_->granularity(), 0);
  EXPECT_TRUE(device_->AllocateMemory(1).ok());
}

TEST_F(CudaDeviceTest, ManagedMemoryIsForTheHostToo) {
  const auto managed = *CudaDevice::Create({.memory = CudaMemory::kManaged});
  void* const memory = *managed->AllocateMemory(4096);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  EXPECT_EQ(managed->granularity(), 0);
  EXPECT_TRUE(absl::IsUnimplemented(managed->ReserveAddresses(1 << 20).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(managed->AllocateMemory(65 << 20).status()));
}

TEST_F(CudaDeviceTest, PeersMayUseWhatIsMapped) {
  const auto shared = *CudaDevice::Create({.peers = {1}});
  const std::int64_t granule = shared->granularity();
  void* const range = *shared->ReserveAddresses(granule);
  ASSERT_TRUE(shared->Map(range, *shared->CreatePhysical(granule)).ok());
  void* entry = nullptr;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuMemGetAccess", &entry, 12000, 0, nullptr),
            cudaSuccess);
  struct Location {
    int type;
    int id;
  };
  using GetAccess = int (*)(unsigned long long*, const Location*, unsigned long long);
  for (const int device : {0, 1}) {
    const Location location = {1, device};
    unsigned long long flags = 0;
    ASSERT_EQ(reinterpret_cast<GetAccess>(entry)(&flags, &location,
                                                 reinterpret_cast<unsigned long long>(range)),
              0);
    EXPECT_EQ(flags, 3U) << device;
  }
}

TEST_F(CudaDeviceTest, CopiesFromAPeer) {
  constexpr std::int64_t kBytes = 4096;
  const auto peer = *CudaDevice::Create({.ordinal = 1});
  const Stream theirs = *peer->CreateStream();
  void* const source = *peer->AllocateMemory(kBytes);
  ASSERT_TRUE(peer->Fill(source, 7, kBytes, theirs).ok());
  const Event filled = *peer->CreateEvent();
  ASSERT_TRUE(peer->RecordEvent(filled, theirs).ok());
  const Stream stream = *device_->CreateStream();
  void* const memory = *device_->AllocateMemory(kBytes);
  std::vector<char> host(kBytes);
  ASSERT_TRUE(device_->WaitEvent(stream, filled).ok());
  ASSERT_TRUE(device_->Copy(memory, source, kBytes, CopyDirection::kFromPeer, stream).ok());
  ASSERT_TRUE(device_->Copy(host.data(), memory, kBytes, CopyDirection::kFromDevice, stream).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
  EXPECT_EQ(host, std::vector<char>(kBytes, 7));
  EXPECT_TRUE(device_->FreeMemory(memory).ok());
  EXPECT_TRUE(peer->FreeMemory(source).ok());
}

// Virtual memory that the other GPU may not access needs another call than memory of cudaMalloc.
TEST_F(CudaDeviceTest, CopiesVirtualMemoryOfAPeerWithoutAccess) {
  const auto peer = *CudaDevice::Create({.ordinal = 1});
  const std::int64_t bytes = peer->granularity();
  void* const source = *peer->ReserveAddresses(bytes);
  ASSERT_TRUE(peer->Map(source, *peer->CreatePhysical(bytes)).ok());
  const Stream theirs = *peer->CreateStream();
  ASSERT_TRUE(peer->Fill(source, 7, bytes, theirs).ok());
  ASSERT_TRUE(peer->SynchronizeStream(theirs).ok());
  const Stream stream = *device_->CreateStream();
  void* const memory = *device_->AllocateMemory(bytes);
  std::vector<char> host(static_cast<std::size_t>(bytes));
  absl::Status copied = device_->Copy(memory, source, bytes, CopyDirection::kFromPeer, stream);
  EXPECT_TRUE(copied.ok()) << copied;
  ASSERT_TRUE(device_->Copy(host.data(), memory, bytes, CopyDirection::kFromDevice, stream).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
  EXPECT_EQ(host, std::vector<char>(static_cast<std::size_t>(bytes), 7));
  cudartHostFailCall("cudaMemcpyPeerAsync", 1, cudaErrorLaunchFailure);
  copied = device_->Copy(memory, source, bytes, CopyDirection::kFromPeer, stream);
  EXPECT_THAT(Message(copied), HasSubstr("Copy: cudaMemcpyPeerAsync("));
  EXPECT_TRUE(device_->FreeMemory(memory).ok());
}

TEST_F(CudaDeviceTest, ThreadsSleepWhileTheyWait) {
  const Stream stream = *device_->CreateStream();
  const Event waited = *device_->CreateEvent(EventKind::kWaited);
  ASSERT_TRUE(device_->RecordEvent(waited, stream).ok());
  ASSERT_TRUE(device_->SynchronizeEvent(waited).ok());
  ASSERT_TRUE(device_->SynchronizeStream(stream).ok());
  EXPECT_EQ(cudartHostCountSpins(), 0);
  ASSERT_TRUE(device_->SynchronizeEvent(Recorded(stream)).ok());
  EXPECT_EQ(cudartHostCountSpins(), 1);
  // An end that both kinds share leaves each its own native events.
  const Stream gone = *device_->CreateStream();
  ASSERT_TRUE(device_->DestroyStream(gone).ok());
  ASSERT_TRUE(device_->RecordEvent(waited, gone).ok());
  ASSERT_TRUE(device_->RecordEvent(waited, stream).ok());
  ASSERT_TRUE(device_->SynchronizeEvent(waited).ok());
  EXPECT_EQ(cudartHostCountSpins(), 1);
}

// Calls of the driver need a context, which calls of the runtime bind to a thread.
TEST_F(CudaDeviceTest, ServesThreadsThatMadeNoCallOfTheRuntime) {
  const Stream stream = *device_->CreateStream();
  const Event event = *device_->CreateEvent();
  ASSERT_TRUE(device_->RecordAll(event).ok());
  ASSERT_TRUE(device_->RecordAll(event).ok());
  const long long created = cudartHostCountCalls("cudaEventCreateWithFlags");
  std::thread([&] { EXPECT_EQ(device_->RecordAll(event), absl::OkStatus()); }).join();
  EXPECT_EQ(cudartHostCountCalls("cudaEventCreateWithFlags"), created);
  for (int i = 0; i < 2; ++i) {
    std::thread([&] { EXPECT_EQ(device_->SpendTime(stream, 1), absl::OkStatus()); }).join();
  }
}

TEST_F(CudaDeviceTest, SpendsTimeInAKernel) {
  const Stream stream = *device_->CreateStream();
  cudartHostFailCall("cuModuleLoadData", 1, cudaErrorUnsupportedPtxVersion);
  EXPECT_THAT(Message(device_->SpendTime(stream, 1)),
              HasSubstr("SpendTime: cuModuleLoadData(tidepool_spend_time)"));
  const long long loads = cudartHostCountCalls("cuModuleLoadData");
  const long long launches = cudartHostCountCalls("cuLaunchKernel");
  for (const std::int64_t nanoseconds : {0, 1000, 1000}) {
    ASSERT_TRUE(device_->SpendTime(stream, nanoseconds).ok());
  }
  EXPECT_EQ(cudartHostCountCalls("cuModuleLoadData"), loads + 1);
  EXPECT_EQ(cudartHostCountCalls("cuLaunchKernel"), launches + 2);
  EXPECT_EQ(cudartHostCountCalls("cudaLaunchHostFunc"), 0);
  cudartHostFailCall("cuLaunchKernel", 1, cudaErrorLaunchFailure);
  EXPECT_THAT(Message(device_->SpendTime(stream, 1)), HasSubstr("SpendTime: cuLaunchKernel("));
}

TEST_F(CudaDeviceTest, GivesBackWhatWasNot) {
  device_.reset();
  ASSERT_EQ(CountLive(), 0);
  {
    const auto device = *CudaDevice::Create({});
    const std::int64_t granule = device->granularity();
    const Stream stream = *device->CreateStream();
    ASSERT_TRUE(device->CreateStream().ok());
    void* const memory = *device->AllocateMemory(1 << 20);
    ASSERT_TRUE(device->AllocatePinned(1 << 20).ok());
    void* const range = *device->ReserveAddresses(4 * granule);
    ASSERT_TRUE(device->Map(range, *device->CreatePhysical(2 * granule)).ok());
    ASSERT_TRUE(device->RecordEvent(*device->CreateEvent(), stream).ok());
    ASSERT_TRUE(device->Fill(memory, 1, 1 << 20, stream).ok());
    ASSERT_TRUE(device->Fill(range, 1, 2 * granule, stream).ok());
    EXPECT_GT(CountLive(), 6);
  }
  EXPECT_EQ(CountLive(), 0);
}

TEST_F(CudaDeviceTest, ReusesNativeEvents) {
  const Stream stream = *device_->CreateStream();
  for (int i = 0; i < 100; ++i) {
    const Event event = Recorded(stream);
    EXPECT_TRUE(device_->RecordEvent(event, stream).ok());
    EXPECT_TRUE(device_->SynchronizeEvent(event).ok());
    EXPECT_TRUE(device_->DestroyEvent(event).ok());
  }
  EXPECT_EQ(cudartHostCountCalls("cudaEventCreateWithFlags"), 1);
}

TEST_F(CudaDeviceTest, KeepsNothingOfStreamsThatAreGoneAndIdle) {
  for (int i = 0; i < 100; ++i) {
    const Stream stream = *device_->CreateStream();
    EXPECT_TRUE(device_->SynchronizeStream(stream).ok());
    EXPECT_TRUE(device_->DestroyStream(stream).ok());
    EXPECT_TRUE(IsOver(Recorded(stream)));
  }
  CudartHostLive live;
  cudartHostCountLive(&live);
  EXPECT_EQ(live.streams, 0);
  EXPECT_LT(live.events, 10);
}

// Threads create, wrap, use and destroy streams and events that other threads use. For the
// sanitizers: no crash, and no error but NotFound.
TEST_F(CudaDeviceTest, ThreadsMayUseWhatOthersDestroy) {
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(i % 2 == 0 ? *device_->CreateStream() : *device_->WrapStream(NewNative()));
    events.push_back(*device_->CreateEvent());
  }
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&, worker] {
      const auto is_fine = [](const absl::Status& status) {
        return status.ok() || absl::IsNotFound(status);
      };
      for (std::size_t i = 0; i < 300; ++i) {
        const Stream stream = streams[(i * 7 + worker) % streams.size()];
        const Event event = events[(i * 3 + worker) % events.size()];
        EXPECT_TRUE(is_fine(device_->RecordEvent(event, stream)));
        EXPECT_TRUE(is_fine(device_->WaitEvent(streams[i % streams.size()], event)));
        EXPECT_TRUE(is_fine(device_->QueryEvent(event).status()));
        EXPECT_TRUE(is_fine(device_->CallHost(stream, [] {})));
        EXPECT_TRUE(is_fine(device_->SynchronizeEvent(event)));
        if (i % 50 == 49) {
          EXPECT_TRUE(is_fine(device_->DestroyStream(stream)));
        }
        if (i % 100 == 99) {
          EXPECT_TRUE(is_fine(device_->DestroyEvent(event)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tidepool
