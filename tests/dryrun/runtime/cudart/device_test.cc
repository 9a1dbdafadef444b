// SPDX-License-Identifier: Apache-2.0
// Devices and errors of the stand-in.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/dryrun/runtime/fixture.h"

namespace tidepool {
namespace {

using DeviceTest = CudartHost;

TEST_F(DeviceTest, EveryThreadHasADeviceOfItsOwn) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  std::thread([] {
    int device = -1;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0);
  }).join();
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
}

template <typename Result, typename... Arguments>
void FindInDriver(const char* name, Result (*&function)(Arguments...)) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &result),
            cudaSuccess);
  ASSERT_EQ(result, cudaDriverEntryPointSuccess);
  function = reinterpret_cast<Result (*)(Arguments...)>(entry);
}

TEST_F(DeviceTest, NoContextHasTheHandleOfAnEarlierOne) {
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  FindInDriver("cuDevicePrimaryCtxRetain", retain);
  std::set<CUcontext> seen;
  for (int round = 0; round < 20; ++round) {
    Configure(2);
    for (const int ordinal : {0, 1}) {
      CUcontext context = nullptr;
      ASSERT_EQ(retain(&context, ordinal), CUDA_SUCCESS);
      EXPECT_TRUE(seen.insert(context).second) << round;
    }
  }
}

TEST_F(DeviceTest, TheFirstCallThatNeedsAContextMakesIt) {
  CUresult (*set_current)(CUcontext) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
  CUresult (*state_of)(CUdevice, unsigned*, int*) = nullptr;
  FindInDriver("cuCtxSetCurrent", set_current);
  FindInDriver("cuDevicePrimaryCtxRetain", retain);
  FindInDriver("cuDevicePrimaryCtxGetState", state_of);
  EXPECT_EQ(cudartHostHasContext(1), 0);
  std::thread([] { EXPECT_EQ(cudaSetDevice(1), cudaSuccess); }).join();
  EXPECT_EQ(cudartHostHasContext(1), 1) << "since CUDA 12";
  CUcontext context = nullptr;
  EXPECT_EQ(retain(&context, 1), CUDA_SUCCESS);
  std::thread([&] {
    int device = -1;
    EXPECT_EQ(set_current(context), CUDA_SUCCESS);
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 1);
    EXPECT_EQ(set_current(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, 0) << "the device that the thread has set, or the first";
  }).join();
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  unsigned flags = 0;
  int is_active = 1;
  EXPECT_EQ(state_of(1, &flags, &is_active), CUDA_SUCCESS);
  EXPECT_EQ(is_active, 0);
  EXPECT_EQ(set_current(context), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DeviceTest, SaysWhatItIs) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_NE(std::string(properties.name).find("stand-in"), std::string::npos);
  EXPECT_EQ(properties.totalGlobalMem, std::size_t{64} << 20);
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1), cudaSuccess);
  EXPECT_EQ(value, properties.warpSize);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 2), cudaErrorInvalidDevice);
  int version = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, CUDART_VERSION);
}

// An H200 answered so.
TEST_F(DeviceTest, AForkedChildOfAContextCannotUseCuda) {
  char* const memory = NewMemory(1);
  const pid_t child = fork();
  if (child == 0) {
    int device = 0;
    void* address = nullptr;
    const bool is_refused = cudaGetDevice(&device) == cudaErrorInitializationError &&
                            cudaSetDevice(0) == cudaErrorInitializationError &&
                            cudaMalloc(&address, 1) == cudaErrorInitializationError;
    _exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(DeviceTest, AMachineMayHaveNone) {
  Configure(0);
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorNoDevice);
  void* address = nullptr;
  EXPECT_EQ(cudaMalloc(&address, 1), cudaErrorNoDevice);
  EXPECT_EQ(cudaFree(nullptr), cudaErrorNoDevice);
}

TEST_F(DeviceTest, TheLastErrorIsTheThreadsAndIsTakenOnce) {
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
  int device = 0;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess) << "which does not take it";
  std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST_F(DeviceTest, ABrokenDeviceSaysSoUntilItIsReset) {
  char* const memory = NewMemory(100);
  const cudaStream_t stream = NewStream();
  cudartHostBreakDevice(0, cudaErrorIllegalAddress);
  void* address = nullptr;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cudaMalloc(&address, 1), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaFree(memory), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  }
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&address, 1), cudaSuccess) << "the other one works";
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "what the thread still has";
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&address, 1), cudaSuccess);
}

TEST_F(DeviceTest, AResetTakesAllOfOneDevice) {
  char* const memory = NewMemory(1 << 20);
  NewPinned(100);
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(cudaMemsetAsync(memory, 1, 1 << 20, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  char* const others = NewMemory(100);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorInvalidResourceHandle);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(free_bytes, total_bytes);
  EXPECT_EQ(cudaFree(others), cudaSuccess);
  const CudartHostLive live = Live();
  EXPECT_EQ(live.allocations + live.streams + live.events, 0);
}

TEST_F(DeviceTest, FaultsHappenOnceAndDoNothing) {
  cudartHostFailCall("cudaMalloc", 2, cudaErrorMemoryAllocation);
  void* address = nullptr;
  EXPECT_EQ(cudaMalloc(&address, 1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&address, 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&address, 1), cudaSuccess);
  EXPECT_EQ(Live().allocations, 2);
  EXPECT_EQ(cudartHostCountCalls("cudaMalloc"), 3);
  cudartHostFailCall(nullptr, 1, cudaErrorUnknown);
  EXPECT_EQ(cudaFree(address), cudaErrorUnknown);
  EXPECT_EQ(cudaFree(address), cudaSuccess);
  cudartHostFailCall("cudaFree", 1, cudaErrorUnknown);
  cudartHostFailCall("cudaFree", 0, 0);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(DeviceTest, CallsOfThreadsAreCountedAndOneFails) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 1000;
  const auto failures_of = [](const char* ordered) {
    cudartHostFailCall(ordered, kThreads * kCalls / 2, cudaErrorUnknown);
    std::atomic<int> failures = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int call = 0; call < kCalls; ++call) {
          int device = -1;
          if (cudaGetDevice(&device) != cudaSuccess) ++failures;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failures.load();
  };
  const long long before = cudartHostCountCalls(nullptr);
  EXPECT_EQ(failures_of("cudaGetDevice"), 1);
  EXPECT_EQ(failures_of(nullptr), 1);
  EXPECT_EQ(cudartHostCountCalls("cudaGetDevice"), 2 * kThreads * kCalls);
  EXPECT_EQ(cudartHostCountCalls(nullptr) - before, 2 * kThreads * kCalls);
}

TEST_F(DeviceTest, RunsNoKernels) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, nullptr),
            cudaErrorNotSupported);
  EXPECT_EQ(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, nullptr),
            cudaErrorNotSupported);
  const std::string said = ::testing::internal::GetCapturedStderr();
  static bool was_said = false;  // in an earlier repetition of the tests
  EXPECT_EQ(said.find("cannot run kernels") == std::string::npos, was_said) << said;
  EXPECT_EQ(said.find("cannot run kernels"), said.rfind("cannot run kernels")) << said;
  was_said = true;
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaGraphCreate(&graph, 0), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

TEST_F(DeviceTest, DescribesItsProcessors) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  // Frameworks divide by these.
  EXPECT_GT(properties.multiProcessorCount, 0);
  EXPECT_GT(properties.maxThreadsPerMultiProcessor, 0);
  EXPECT_GT(properties.sharedMemPerBlock, 0);
  EXPECT_GE(properties.sharedMemPerBlockOptin, properties.sharedMemPerBlock);
  EXPECT_GE(properties.sharedMemPerMultiprocessor, properties.sharedMemPerBlockOptin);
}

TEST_F(DeviceTest, HasDriverFunctionsThatRefuse) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, CUDART_VERSION,
                                             cudaEnableDefault, &found),
            cudaSuccess);
  EXPECT_EQ(found, cudaDriverEntryPointSuccess);
  EXPECT_EQ(reinterpret_cast<int (*)()>(entry)(), cudaErrorNotSupported);
}

TEST_F(DeviceTest, KeepsTheMemoryPoolThatIsSet) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 1;
  cudaMemPool_t made = nullptr;
  cudaMemPool_t current = nullptr;
  cudaMemPool_t first = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&made, &properties), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetMemPool(&first, 1), cudaSuccess);
  EXPECT_EQ(cudaDeviceSetMemPool(0, made), cudaErrorInvalidDevice) << "memory of device 1";
  ASSERT_EQ(cudaDeviceSetMemPool(1, made), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetMemPool(&current, 1), cudaSuccess);
  EXPECT_EQ(current, made);
  cudaMemAccessDesc access = {.location = {.type = cudaMemLocationTypeDevice, .id = 0},
                              .flags = cudaMemAccessFlagsProtReadWrite};
  EXPECT_EQ(cudaMemPoolSetAccess(made, &access, 1), cudaSuccess);
  access.location.id = 9;
  EXPECT_EQ(cudaMemPoolSetAccess(made, &access, 1), cudaErrorInvalidDevice);
  ASSERT_EQ(cudaMemPoolDestroy(made), cudaSuccess);
  ASSERT_EQ(cudaDeviceGetMemPool(&current, 1), cudaSuccess);
  EXPECT_EQ(current, first) << "the default pool is used again";
}

TEST_F(DeviceTest, RefusesConfigurationsThatAreNone) {
  CudartHostConfig config = Config(1);
  config.granularity = 3000;
  EXPECT_EQ(cudartHostConfigure(&config), 0);
  config = Config(-1);
  EXPECT_EQ(cudartHostConfigure(&config), 0);
  config = Config(1);
  config.memory_bytes = 0;
  EXPECT_EQ(cudartHostConfigure(&config), 0);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2) << "as it was";
}

TEST_F(DeviceTest, HasTheMultiprocessorsOfItsConfiguration) {
  CudartHostConfig config = Config(1);
  config.multiprocessors = 132;
  config.threads_per_multiprocessor = 1536;
  config.shared_bytes_per_block = 232448;
  config.l2_bytes = 50 << 20;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.multiProcessorCount, 132);
  EXPECT_EQ(properties.maxThreadsPerMultiProcessor, 1536);
  EXPECT_EQ(properties.sharedMemPerBlockOptin, 232448);
  EXPECT_EQ(properties.sharedMemPerMultiprocessor, 233472);
  EXPECT_EQ(properties.l2CacheSize, 50 << 20);
}

TEST_F(DeviceTest, SharesTheMemoryOfTheHostIfItsConfigurationSaysSo) {
  for (const int is_integrated : {0, 1}) {
    CudartHostConfig config = Config(1);
    config.is_integrated = is_integrated;
    ASSERT_EQ(cudartHostConfigure(&config), 1);
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    EXPECT_EQ(properties.integrated, is_integrated);
    int value = -1;
    ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrIntegrated, 0), cudaSuccess);
    EXPECT_EQ(value, is_integrated);
  }
}

TEST_F(DeviceTest, ALibraryTakesMemory) {
  std::size_t before = 0;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total_bytes), cudaSuccess);
  ASSERT_EQ(cudartHostTakeForLibrary(0, 1 << 20), 1);
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(free_bytes, before - (1 << 20));
  EXPECT_EQ(cudartHostTakeForLibrary(0, static_cast<long long>(before)), 0);
  EXPECT_EQ(cudartHostTakeForLibrary(64, 1), 0);
  void* address = nullptr;
  EXPECT_EQ(cudaMalloc(&address, before), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudartHostTakeForLibrary(0, -(1 << 20)), 1);
  EXPECT_EQ(cudaMalloc(&address, before), cudaSuccess);
  EXPECT_EQ(cudaFree(address), cudaSuccess);
}

TEST_F(DeviceTest, TakesTheMemoryOfAContext) {
  CudartHostConfig config = Config(1);
  config.context_bytes = config.memory_bytes / 4;
  ASSERT_EQ(cudartHostConfigure(&config), 1);
  const auto memory = static_cast<std::size_t>(config.memory_bytes);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.totalGlobalMem, memory);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(free_bytes, memory / 4 * 3);
  EXPECT_EQ(total_bytes, memory);
  void* address = nullptr;
  EXPECT_EQ(cudaMalloc(&address, free_bytes + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&address, free_bytes), cudaSuccess);
  EXPECT_EQ(cudaFree(address), cudaSuccess);
  config.context_bytes = config.memory_bytes;
  EXPECT_EQ(cudartHostConfigure(&config), 0);
  config.context_bytes = -1;
  EXPECT_EQ(cudartHostConfigure(&config), 0);
}

}  // namespace
}  // namespace tidepool
