// SPDX-License-Identifier: Apache-2.0
// Behaviour that programs rely on, as CNMeM's own tests and its documentation define it.
#include <gmock/gmock.h>

#include <limits>
#include <thread>

#include "tests/bindings/cnmem/fixture.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

class CnmemBehaviourTest : public CnmemFixture, public ::testing::WithParamInterface<unsigned> {
 protected:
  static unsigned Flags(unsigned more = 0) { return GetParam() | more; }
};

INSTANTIATE_TEST_SUITE_P(Memory, CnmemBehaviourTest,
                         ::testing::Values(CNMEM_FLAGS_DEFAULT, CNMEM_FLAGS_MANAGED));

TEST_P(CnmemBehaviourTest, NothingWorksBeforeTheBeginningOrAfterTheEnd) {
  const cudaStream_t stream = NewStream();
  for (int round = 0; round < 2; ++round) {
    void* address = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(cnmemMalloc(&address, 512, nullptr), CNMEM_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cnmemMalloc(nullptr, 0, nullptr), CNMEM_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cnmemFree(nullptr, nullptr), CNMEM_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cnmemRegisterStream(stream), CNMEM_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cnmemMemGetInfo(&bytes, &bytes, nullptr), CNMEM_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cnmemPrintMemoryState(stderr, nullptr), CNMEM_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cnmemRetain(), CNMEM_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_NOT_INITIALIZED);
    if (round == 1) break;
    ASSERT_EQ(Init(4096, Flags()), CNMEM_STATUS_SUCCESS);
    address = Malloc(512);
    ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
    EXPECT_EQ(cnmemFree(address, nullptr), CNMEM_STATUS_NOT_INITIALIZED);
  }
}

TEST_P(CnmemBehaviourTest, RoundsTo512Bytes) {
  ASSERT_EQ(Init(2048, Flags(CNMEM_FLAGS_CANNOT_GROW)), CNMEM_STATUS_SUCCESS);
  std::vector<void*> blocks;
  for (const std::size_t bytes : {1, 511, 512, 513}) {
    const cnmemStatus_t status = TryMalloc(bytes);
    EXPECT_EQ(status, bytes == 513 ? CNMEM_STATUS_OUT_OF_MEMORY : CNMEM_STATUS_SUCCESS) << bytes;
  }
  EXPECT_EQ(GetInfo(), (Info{512, 2048}));
  void* const last = Malloc(512);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(last) % 512, 0U);
  EXPECT_EQ(GetInfo(), (Info{0, 2048}));
}

TEST_P(CnmemBehaviourTest, SizesOfDevices) {
  EXPECT_EQ(Init(kMemory, Flags()), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(Init(2 * kMemory, Flags()), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(Init(std::numeric_limits<std::size_t>::max(), Flags()), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_NOT_INITIALIZED) << "a failed cnmemInit leaves nothing";
  ASSERT_EQ(Init(0, Flags()), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo(), (Info{kMemory / 2, kMemory / 2}));
  EXPECT_EQ(FreeOnDevice(), kMemory / 2);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  ASSERT_EQ(Init(kMemory - 1, Flags()), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo().total_bytes, kMemory);
  ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  ASSERT_EQ(Init(1, Flags()), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo(), (Info{512, 512}));
}

TEST_P(CnmemBehaviourTest, ADeviceThatIsFullIsOutOfMemory) {
  void* taken = nullptr;
  ASSERT_EQ(cudaMalloc(&taken, kMemory / 2), cudaSuccess);
  EXPECT_EQ(Init(kMemory / 2 + 512, Flags()), CNMEM_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(FreeOnDevice(), kMemory / 2);
  ASSERT_EQ(Init(kMemory / 4, Flags()), CNMEM_STATUS_SUCCESS);
  Malloc(512);
  EXPECT_EQ(TryMalloc(kMemory / 2), CNMEM_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "nobody else finds the error";
  Malloc(kMemory / 4 - 512);  // requests that fit are still served
  ASSERT_EQ(cudaFree(taken), cudaSuccess);
}

TEST_P(CnmemBehaviourTest, ArgumentsOfInit) {
  cnmemDevice_t device = {};
  device.size = 4096;
  cudaStream_t stream = NewStream();
  const auto is_refused = [&](int count, const cnmemDevice_t* devices) {
    const cnmemStatus_t status = cnmemInit(count, devices, Flags());
    EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_NOT_INITIALIZED);
    return status;
  };
  EXPECT_EQ(is_refused(0, &device), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(is_refused(-1, &device), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(is_refused(1, nullptr), CNMEM_STATUS_INVALID_ARGUMENT);
  device.numStreams = 1;
  EXPECT_EQ(is_refused(1, &device), CNMEM_STATUS_INVALID_ARGUMENT);
  device.numStreams = -1;
  device.streams = &stream;
  EXPECT_EQ(is_refused(1, &device), CNMEM_STATUS_INVALID_ARGUMENT);
  device.numStreams = 0;
  for (const int ordinal : {-1, 2, std::numeric_limits<int>::max()}) {
    device.device = ordinal;
    EXPECT_EQ(is_refused(1, &device), CNMEM_STATUS_CUDA_ERROR) << ordinal;
  }
  std::size_t reserved = 8192;
  device = {0, 4096, 1, &stream, &reserved};
  EXPECT_EQ(cnmemInit(1, &device, Flags(CNMEM_FLAGS_CANNOT_GROW)), CNMEM_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_NOT_INITIALIZED);
}

TEST_P(CnmemBehaviourTest, BeginsOnce) {
  ASSERT_EQ(Init(4096, Flags()), CNMEM_STATUS_SUCCESS);
  void* const block = Malloc(1024);
  EXPECT_EQ(Init(8192, Flags()), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(GetInfo(), (Info{3072, 4096})) << "the first goes on";
  Free(block);
  EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_NOT_INITIALIZED);
}

TEST_P(CnmemBehaviourTest, NothingIsAllocatedAndFreed) {
  ASSERT_EQ(Init(2048, Flags()), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemMalloc(nullptr, 0, nullptr), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemMalloc(nullptr, 512, nullptr), CNMEM_STATUS_INVALID_ARGUMENT);
  void* address = &address;
  EXPECT_EQ(cnmemMalloc(&address, 0, nullptr), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(address, nullptr);
  const cudaStream_t unknown = NewStream();
  EXPECT_EQ(cnmemMalloc(&address, 0, unknown), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemFree(nullptr, nullptr), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemFree(nullptr, unknown), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo(), (Info{2048, 2048}));
}

TEST_P(CnmemBehaviourTest, OutOfMemoryGivesNull) {
  ASSERT_EQ(Init(2048, Flags(CNMEM_FLAGS_CANNOT_GROW)), CNMEM_STATUS_SUCCESS);
  for (int i = 0; i < 4; ++i) EXPECT_NE(Malloc(512), nullptr);
  void* address = &address;
  EXPECT_EQ(cnmemMalloc(&address, 1, nullptr), CNMEM_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(address, nullptr);
}

TEST_P(CnmemBehaviourTest, GrowsUnlessItMayNot) {
  ASSERT_EQ(Init(2048, Flags()), CNMEM_STATUS_SUCCESS);
  std::vector<void*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(Malloc(512));
  EXPECT_GE(GetInfo().total_bytes, 2560U);
  EXPECT_EQ(GetInfo().total_bytes - GetInfo().free_bytes, 2560U) << "what is used";
  for (void* const block : blocks) Free(block);
  EXPECT_EQ(GetInfo().total_bytes, GetInfo().free_bytes);
  EXPECT_GE(GetInfo().total_bytes, 2560U) << "what it grew stays";
}

TEST_P(CnmemBehaviourTest, GrowsToTheWholeDevice) {
  ASSERT_EQ(Init(512, Flags()), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(TryMalloc(2 * kMemory), CNMEM_STATUS_OUT_OF_MEMORY);
  std::vector<void*> blocks;
  for (int i = 0; i < 15; ++i) blocks.push_back(Malloc(4 << 20));
  EXPECT_EQ(TryMalloc(8 << 20), CNMEM_STATUS_OUT_OF_MEMORY);
  for (void* const block : blocks) Free(block);
}

TEST_P(CnmemBehaviourTest, StreamsAreRegistered) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(3072, Flags(), {streams[0]}), CNMEM_STATUS_SUCCESS);
  void* const first = Malloc(1024, streams[0]);
  void* untouched = &untouched;
  std::size_t bytes = 7;
  EXPECT_EQ(cnmemMalloc(&untouched, 1024, streams[1]), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(untouched, &untouched);
  EXPECT_EQ(cnmemFree(first, streams[1]), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(cnmemMemGetInfo(&bytes, &bytes, streams[1]), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(cnmemPrintMemoryState(stderr, streams[1]), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(cnmemRegisterStream(nullptr), CNMEM_STATUS_INVALID_ARGUMENT);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cnmemRegisterStream(streams[1]), CNMEM_STATUS_SUCCESS);
    EXPECT_EQ(cnmemRegisterStream(streams[0]), CNMEM_STATUS_SUCCESS);
  }
  void* const second = Malloc(1024, streams[1]);
  Free(second, streams[1]);
  Free(first, streams[0]);
}

TEST_P(CnmemBehaviourTest, MemoryIsFreedOnItsStreamOrOnNone) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(8192, Flags(CNMEM_FLAGS_CANNOT_GROW), streams), CNMEM_STATUS_SUCCESS);
  void* const named = Malloc(1024, streams[0]);
  void* const unnamed = Malloc(1024);
  EXPECT_EQ(cnmemFree(named, streams[1]), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(cnmemFree(unnamed, streams[1]), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(cnmemFree(static_cast<char*>(named) + 512, streams[0]), CNMEM_STATUS_INVALID_ARGUMENT);
  int other = 0;
  EXPECT_EQ(cnmemFree(&other, nullptr), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(GetInfo(streams[0]), (Info{0, 1024})) << "nothing of that has freed it";
  Free(named);
  Free(unnamed);
  for (const cudaStream_t stream : {streams[0], streams[1], cudaStream_t{nullptr}}) {
    EXPECT_EQ(cnmemFree(named, stream), CNMEM_STATUS_INVALID_ARGUMENT) << "a second time";
  }
  EXPECT_EQ(GetInfo(), (Info{8192, 8192}));
}

TEST_P(CnmemBehaviourTest, CountsForEachStream) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(8192, Flags(CNMEM_FLAGS_CANNOT_GROW), streams, {2000, 4096}),
            CNMEM_STATUS_SUCCESS);
  std::size_t bytes = 0;
  EXPECT_EQ(cnmemMemGetInfo(nullptr, &bytes, nullptr), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(cnmemMemGetInfo(&bytes, nullptr, nullptr), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(GetInfo(), (Info{2048, 8192}));
  EXPECT_EQ(GetInfo(streams[0]), (Info{2048, 2048}));
  EXPECT_EQ(GetInfo(streams[1]), (Info{4096, 4096}));
  void* const within = Malloc(1024, streams[0]);
  EXPECT_EQ(GetInfo(streams[0]), (Info{1024, 2048}));
  EXPECT_EQ(GetInfo(), (Info{2048, 8192})) << "of its own";
  void* const beyond = Malloc(2048, streams[0]);
  EXPECT_EQ(GetInfo(streams[0]), (Info{0, 3072}));
  EXPECT_EQ(GetInfo(), (Info{1024, 8192}));
  void* const unnamed = Malloc(1024);
  EXPECT_EQ(GetInfo(), (Info{0, 8192}));
  EXPECT_EQ(GetInfo(streams[1]), (Info{4096, 4096}));
  Free(within, streams[0]);
  Free(beyond, streams[0]);
  Free(unnamed);
  EXPECT_EQ(GetInfo(), (Info{2048, 8192}));
  EXPECT_EQ(GetInfo(streams[0]), (Info{2048, 2048}));
}

TEST_P(CnmemBehaviourTest, WhatIsReservedMayBeStolenAtLast) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(8192, Flags(CNMEM_FLAGS_CANNOT_GROW), streams, {4096, 4096}),
            CNMEM_STATUS_SUCCESS);
  void* const stolen = Malloc(6144);
  EXPECT_EQ(GetInfo(), (Info{0, 8192}));
  EXPECT_EQ(GetInfo(streams[0]), (Info{2048, 2048}));
  EXPECT_EQ(GetInfo(streams[1]), (Info{0, 0}));
  EXPECT_EQ(TryMalloc(2560, streams[0]), CNMEM_STATUS_OUT_OF_MEMORY);
  Free(stolen);
  void* const own = Malloc(4096, streams[0]);
  Free(own, streams[0]);
}

TEST_P(CnmemBehaviourTest, WhatIsReservedIsTakenOfTheDeviceAtOnce) {
  const std::vector<cudaStream_t> streams = {NewStream(), NewStream()};
  ASSERT_EQ(Init(4 << 20, Flags(), streams, {6 << 20, 6 << 20}), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(FreeOnDevice(), kMemory - (12 << 20));
  EXPECT_EQ(GetInfo(streams[0]), (Info{6 << 20, 6 << 20}));
  EXPECT_EQ(GetInfo(), (Info{0, 12 << 20}));
}

TEST_P(CnmemBehaviourTest, PrintsWhatPeopleRead) {
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(4096, Flags(CNMEM_FLAGS_CANNOT_GROW), {stream}), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemPrintMemoryState(nullptr, nullptr), CNMEM_STATUS_INVALID_ARGUMENT);
  Malloc(1024, stream);
  Malloc(512);
  const std::string of_stream = State(stream);
  EXPECT_THAT(of_stream, HasSubstr(" of device 0: 1024 bytes, 1024 used, 0 free\n"));
  EXPECT_THAT(of_stream, HasSubstr("cnmem: device 0: 4096 bytes, 1536 used, 2560 free for all"));
  EXPECT_THAT(of_stream, HasSubstr("  used by stream 0x"));
  const std::string of_all = State();
  EXPECT_EQ(of_all.find(" of device 0:"), std::string::npos);
  EXPECT_THAT(of_all, HasSubstr("512  used by the default stream\n"));
  EXPECT_THAT(of_all, HasSubstr("2560  free\n"));
}

TEST_P(CnmemBehaviourTest, CountsReferences) {
  ASSERT_EQ(Init(2048, Flags()), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemRetain(), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemRetain(), CNMEM_STATUS_SUCCESS);
  void* const block = Malloc(1024);
  EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_SUCCESS);
  Free(block);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(cnmemRelease(), CNMEM_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(FreeOnDevice(), kMemory);
}

TEST_P(CnmemBehaviourTest, EndsWithLiveMemoryWithoutAWord) {
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Init(2048, Flags(), {stream}), CNMEM_STATUS_SUCCESS);
  Malloc(512);
  Malloc(512, stream);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(FreeOnDevice(), kMemory);
}

TEST_P(CnmemBehaviourTest, DevicesAreApartAndTheCurrentOneStays) {
  cnmemDevice_t devices[2] = {};
  devices[0].size = 4096;
  devices[1].device = 1;
  devices[1].size = 2048;
  for (const int current : {0, 1}) {
    ASSERT_EQ(cudaSetDevice(current), cudaSuccess);
    ASSERT_EQ(cnmemInit(2, devices, Flags()), CNMEM_STATUS_SUCCESS);
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, current);
    EXPECT_EQ(GetInfo().total_bytes, devices[current].size);
    void* const block = Malloc(512);
    EXPECT_EQ(cudaSetDevice(1 - current), cudaSuccess);
    EXPECT_EQ(GetInfo().free_bytes, devices[1 - current].size);
    EXPECT_EQ(cnmemFree(block, nullptr), CNMEM_STATUS_INVALID_ARGUMENT) << "of the other device";
    EXPECT_EQ(cnmemRegisterStream(NewStream()), CNMEM_STATUS_SUCCESS);
    EXPECT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 1 - current);
  }
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_P(CnmemBehaviourTest, ADeviceThatWasNotGivenHasNoMemory) {
  cnmemDevice_t device = {};
  device.device = 1;
  device.size = 4096;
  const cudaStream_t of_first = NewStream();
  ASSERT_EQ(cnmemInit(1, &device, Flags()), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(TryMalloc(512), CNMEM_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(cnmemRegisterStream(of_first), CNMEM_STATUS_INVALID_ARGUMENT);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cnmemRegisterStream(of_first), CNMEM_STATUS_INVALID_ARGUMENT) << "of another device";
  Malloc(512);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_P(CnmemBehaviourTest, ADeviceMayBeGivenTwice) {
  cudaStream_t streams[2] = {NewStream(), NewStream()};
  cnmemDevice_t devices[2] = {{0, 1024, 1, &streams[0], nullptr}, {0, 2048, 2, streams, nullptr}};
  ASSERT_EQ(cnmemInit(2, devices, Flags(CNMEM_FLAGS_CANNOT_GROW)), CNMEM_STATUS_SUCCESS);
  EXPECT_EQ(GetInfo(), (Info{3072, 3072}));
  Malloc(512, streams[0]);
  Malloc(512, streams[1]);
}

TEST_P(CnmemBehaviourTest, NamesOfStatuses) {
  EXPECT_STREQ(cnmemGetErrorString(CNMEM_STATUS_SUCCESS), "CNMEM_STATUS_SUCCESS");
  EXPECT_STREQ(cnmemGetErrorString(CNMEM_STATUS_CUDA_ERROR), "CNMEM_STATUS_CUDA_ERROR");
  EXPECT_STREQ(cnmemGetErrorString(CNMEM_STATUS_INVALID_ARGUMENT), "CNMEM_STATUS_INVALID_ARGUMENT");
  EXPECT_STREQ(cnmemGetErrorString(CNMEM_STATUS_NOT_INITIALIZED), "CNMEM_STATUS_NOT_INITIALIZED");
  EXPECT_STREQ(cnmemGetErrorString(CNMEM_STATUS_OUT_OF_MEMORY), "CNMEM_STATUS_OUT_OF_MEMORY");
  EXPECT_STREQ(cnmemGetErrorString(CNMEM_STATUS_UNKNOWN_ERROR), "CNMEM_STATUS_UNKNOWN_ERROR");
  EXPECT_STREQ(cnmemGetErrorString(static_cast<cnmemStatus_t>(6)), "CNMEM_STATUS_UNKNOWN_ERROR");
}

TEST(CnmemHeaderTest, ValuesAreThoseOfTheOriginal) {
  EXPECT_EQ(CNMEM_VERSION, 100);
  EXPECT_EQ(CNMEM_STATUS_SUCCESS, 0);
  EXPECT_EQ(CNMEM_STATUS_CUDA_ERROR, 1);
  EXPECT_EQ(CNMEM_STATUS_INVALID_ARGUMENT, 2);
  EXPECT_EQ(CNMEM_STATUS_NOT_INITIALIZED, 3);
  EXPECT_EQ(CNMEM_STATUS_OUT_OF_MEMORY, 4);
  EXPECT_EQ(CNMEM_STATUS_UNKNOWN_ERROR, 5);
  EXPECT_EQ(CNMEM_FLAGS_DEFAULT, 0);
  EXPECT_EQ(CNMEM_FLAGS_CANNOT_GROW, 1);
  EXPECT_EQ(CNMEM_FLAGS_CANNOT_STEAL, 2);
  EXPECT_EQ(CNMEM_FLAGS_MANAGED, 4);
  EXPECT_EQ(sizeof(cnmemDevice_t), 40U);
  EXPECT_EQ(offsetof(cnmemDevice_t, size), 8U);
  EXPECT_EQ(offsetof(cnmemDevice_t, numStreams), 16U);
  EXPECT_EQ(offsetof(cnmemDevice_t, streams), 24U);
  EXPECT_EQ(offsetof(cnmemDevice_t, streamSizes), 32U);
}

TEST_F(CnmemFixture, MemoryIsOfCudaMallocUnlessItIsManaged) {
  for (const unsigned flags : {CNMEM_FLAGS_DEFAULT, CNMEM_FLAGS_MANAGED}) {
    ASSERT_EQ(Init(4096, flags), CNMEM_STATUS_SUCCESS);
    cudaPointerAttributes attributes;
    ASSERT_EQ(cudaPointerGetAttributes(&attributes, Malloc(512)), cudaSuccess);
    EXPECT_EQ(attributes.type,
              flags == CNMEM_FLAGS_MANAGED ? cudaMemoryTypeManaged : cudaMemoryTypeDevice);
    CudartHostLive live;
    cudartHostCountLive(&live);
    EXPECT_EQ(live.allocations, 1) << "which can be shared with others";
    EXPECT_EQ(live.mappings, 0);
    ASSERT_EQ(cnmemFinalize(), CNMEM_STATUS_SUCCESS);
  }
}

}  // namespace
}  // namespace tidepool
