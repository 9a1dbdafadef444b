// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's runtime that tidepool calls. Each looks for its namesake in the runtime
// that the process has, or in the newest one that the loader finds, when it is first called.
// Without a runtime there is no device: calls return cudaErrorInsufficientDriver, and its text
// names the libraries that were looked for. Thread-safe.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace {

constexpr std::array kNames = {"libcudart.so.13", "libcudart.so.12"};

// Prefers a runtime that the process has: streams of a framework belong to it, and a dry run brings
// its own.
void* OpenRuntime() {
  for (const int mode : {RTLD_LAZY | RTLD_NOLOAD, RTLD_LAZY}) {
    for (const char* const name : kNames) {
      if (void* const runtime = dlopen(name, mode); runtime != nullptr) return runtime;
    }
  }
  return nullptr;
}

void* Runtime() {
  static void* const runtime = OpenRuntime();
  return runtime;
}

template <typename Function>
Function* Find(const char* name) {
  return Runtime() == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(Runtime(), name));
}

// The error of a function that is not there.
cudaError_t Missing() {
  return Runtime() == nullptr ? cudaErrorInsufficientDriver : cudaErrorNotSupported;
}

template <typename Function>
struct Call;
template <typename... Arguments>
struct Call<cudaError_t(Arguments...)> {
  static cudaError_t Make(cudaError_t (*function)(Arguments...), Arguments... arguments) {
    return function == nullptr ? Missing() : function(arguments...);
  }
};

}  // namespace

// Looks a function up once, and calls it.
#define FORWARD(name, ...)                                   \
  static auto* const function = Find<decltype(name)>(#name); \
  return Call<decltype(name)>::Make(function __VA_OPT__(, ) __VA_ARGS__)

extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  FORWARD(cudaDeviceGetAttribute, value, attribute, device);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  FORWARD(cudaDeviceGetPCIBusId, text, size, device);
}

cudaError_t cudaDeviceSynchronize() { FORWARD(cudaDeviceSynchronize); }

cudaError_t cudaDriverGetVersion(int* version) { FORWARD(cudaDriverGetVersion, version); }

cudaError_t cudaEventCreate(cudaEvent_t* event) { FORWARD(cudaEventCreate, event); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  FORWARD(cudaEventCreateWithFlags, event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) { FORWARD(cudaEventDestroy, event); }

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  FORWARD(cudaEventElapsedTime, milliseconds, first, second);
}

cudaError_t cudaEventQuery(cudaEvent_t event) { FORWARD(cudaEventQuery, event); }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FORWARD(cudaEventRecord, event, stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) { FORWARD(cudaEventSynchronize, event); }

cudaError_t cudaFree(void* address) { FORWARD(cudaFree, address); }

cudaError_t cudaFreeHost(void* address) { FORWARD(cudaFreeHost, address); }

cudaError_t cudaGetDevice(int* device) { FORWARD(cudaGetDevice, device); }

cudaError_t cudaGetDeviceCount(int* count) { FORWARD(cudaGetDeviceCount, count); }

// CUDA 12 calls its function by another name and has a larger structure, of which the part up to
// `minor` is the same.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  using Function = cudaError_t(void*, int);
  static auto* const function_of_12 = Find<Function>("cudaGetDeviceProperties_v2");
  static auto* const function = Find<Function>("cudaGetDeviceProperties");
  constexpr std::size_t kLargest = 4096;
  constexpr std::size_t kSame = offsetof(cudaDeviceProp, minor) + sizeof(int);
  alignas(std::max_align_t) std::array<char, kLargest> buffer = {};
  const cudaError_t error = Call<Function>::Make(
      function_of_12 == nullptr ? function : function_of_12, buffer.data(), device);
  if (error != cudaSuccess) return error;
  std::memset(properties, 0, sizeof *properties);
  std::memcpy(properties, buffer.data(), kSame);
  return error;
}

// Before CUDA 12.5 the driver is asked for the functions of the runtime's version.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result) {
  using Older =
      cudaError_t(const char*, void**, unsigned long long, cudaDriverEntryPointQueryResult*);
  using Newer = cudaError_t(const char*, void**, unsigned, unsigned long long,
                            cudaDriverEntryPointQueryResult*);
  static auto* const newer = Find<Newer>("cudaGetDriverEntryPointByVersion");
  static auto* const older = Find<Older>("cudaGetDriverEntryPoint");
  if (newer != nullptr) return newer(symbol, function, version, flags, result);
  return Call<Older>::Make(older, symbol, function, flags, result);
}

const char* cudaGetErrorName(cudaError_t error) {
  static auto* const function = Find<decltype(cudaGetErrorName)>("cudaGetErrorName");
  return function == nullptr ? "cudaErrorInsufficientDriver" : function(error);
}

const char* cudaGetErrorString(cudaError_t error) {
  static auto* const function = Find<decltype(cudaGetErrorString)>("cudaGetErrorString");
  return function == nullptr ? "neither libcudart.so.13 nor libcudart.so.12 was found: install "
                               "CUDA's runtime, or add "
                               "its folder to LD_LIBRARY_PATH"
                             : function(error);
}

cudaError_t cudaGetLastError() { FORWARD(cudaGetLastError); }

cudaError_t cudaHostAlloc(void** address, std::size_t size, unsigned flags) {
  FORWARD(cudaHostAlloc, address, size, flags);
}

cudaError_t cudaHostRegister(void* address, std::size_t size, unsigned flags) {
  FORWARD(cudaHostRegister, address, size, flags);
}

cudaError_t cudaHostUnregister(void* address) { FORWARD(cudaHostUnregister, address); }

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t called, void* data) {
  FORWARD(cudaLaunchHostFunc, stream, called, data);
}

cudaError_t cudaMalloc(void** address, std::size_t size) { FORWARD(cudaMalloc, address, size); }

cudaError_t cudaMallocManaged(void** address, std::size_t size, unsigned flags) {
  FORWARD(cudaMallocManaged, address, size, flags);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  FORWARD(cudaMemGetInfo, free, total);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FORWARD(cudaMemcpyAsync, to, from, size, kind, stream);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t size, cudaStream_t stream) {
  FORWARD(cudaMemcpyPeerAsync, to, to_device, from, from_device, size, stream);
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t size, cudaStream_t stream) {
  FORWARD(cudaMemsetAsync, address, value, size, stream);
}

cudaError_t cudaPeekAtLastError() { FORWARD(cudaPeekAtLastError); }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  FORWARD(cudaPointerGetAttributes, attributes, address);
}

cudaError_t cudaSetDevice(int device) { FORWARD(cudaSetDevice, device); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  FORWARD(cudaStreamCreateWithFlags, stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) { FORWARD(cudaStreamDestroy, stream); }

// Before CUDA 12.8 a stream does not tell its device, so it is believed to belong to the current
// one.
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  static auto* const function = Find<decltype(cudaStreamGetDevice)>("cudaStreamGetDevice");
  return function == nullptr ? cudaGetDevice(device) : function(stream, device);
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* number) {
  FORWARD(cudaStreamGetId, stream, number);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  FORWARD(cudaStreamIsCapturing, stream, status);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  FORWARD(cudaStreamWaitEvent, stream, event, flags);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  FORWARD(cudaThreadExchangeStreamCaptureMode, mode);
}

}  // extern "C"
