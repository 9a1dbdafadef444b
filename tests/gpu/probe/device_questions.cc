// SPDX-License-Identifier: Apache-2.0
// The device, the costs of calls, and the ends of processes and contexts.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/gpu/probe/driver.h"
#include "tests/gpu/probe/gate.h"
#include "tests/gpu/probe/probe.h"

namespace tidepool::probe {
namespace {

void SayProperties() {
  cudaDeviceProp properties = {};
  Code("properties", cudaGetDeviceProperties(&properties, 0));
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  SayJson("name", "\"" + std::string(properties.name) + "\"");
  Say("driver", driver);
  Say("runtime", runtime);
  Say("sms", properties.multiProcessorCount);
  Say("l2", properties.l2CacheSize);
  Say("threads_per_sm", properties.maxThreadsPerMultiProcessor);
  Say("shared_optin", static_cast<double>(properties.sharedMemPerBlockOptin));
  Say("async_engines", properties.asyncEngineCount);
}

void SayAttribute(const char* key, CUdevice_attribute attribute) {
  int value = -1;
  TheDriver().get_attribute(&value, attribute, 0);
  Say(key, value);
}

void SayMemory() {
  std::size_t free = 0;
  std::size_t total = 0;
  cudaMemGetInfo(&free, &total);
  Say("total", static_cast<double>(total));
  Say("free", static_cast<double>(free));
  Say("granularity", static_cast<double>(Granule()));
  SayAttribute("vmm", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  SayAttribute("rdma_vmm", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  SayAttribute("posix_fd", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  SayAttribute("fabric", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
  SayAttribute("pageable_access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  SayAttribute("memory_pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  std::size_t recommended = 0;
  const CUmemAllocationProp properties = PropertiesOfMemory();
  TheDriver().granularity(&recommended, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  Say("granularity_recommended", static_cast<double>(recommended));
}

void SayCostsOfStreams(cudaStream_t stream, cudaStream_t other) {
  int device = 0;
  unsigned long long id = 0;
  unsigned flags = 0;
  cudaStreamCaptureStatus status;
  cudaEvent_t event = NewEvent();
  Say("get_device_ns", NanosecondsOf([&] { cudaGetDevice(&device); }));
  Say("record_ns", NanosecondsOf([&] { cudaEventRecord(event, stream); }));
  Say("wait_ns", NanosecondsOf([&] { cudaStreamWaitEvent(other, event, 0); }));
  Say("get_id_ns", NanosecondsOf([&] { cudaStreamGetId(stream, &id); }));
  Say("get_flags_ns", NanosecondsOf([&] { cudaStreamGetFlags(stream, &flags); }));
  Say("is_capturing_ns", NanosecondsOf([&] { cudaStreamIsCapturing(stream, &status); }));
}

void SayCostsOfWork(cudaStream_t stream) {
  void* memory = nullptr;
  cudaMalloc(&memory, 4096);
  cudaPointerAttributes attributes;
  Say("attributes_ns", NanosecondsOf([&] { cudaPointerGetAttributes(&attributes, memory); }));
  Say("memset_ns", NanosecondsOf([&] { cudaMemsetAsync(memory, 0, 4096, stream); }));
  Say("event_create_destroy_ns", NanosecondsOf([] { cudaEventDestroy(NewEvent()); }));
  const auto call_host = [&] { cudaLaunchHostFunc(stream, Nothing, nullptr); };
  Say("host_func_ns", NanosecondsOf(call_host, 500));
  cudaDeviceSynchronize();
  const auto call_and_wait = [&] {
    call_host();
    cudaStreamSynchronize(stream);
  };
  Say("host_func_round_trip_ns", NanosecondsOf(call_and_wait, 200));
  Say("stream_create_destroy_us", NanosecondsOf([] { cudaStreamDestroy(NewStream()); }, 100) / 1e3);
  std::size_t free = 0;
  std::size_t total = 0;
  Say("mem_get_info_ns", NanosecondsOf([&] { cudaMemGetInfo(&free, &total); }, 200));
}

// The exit status of a child that calls CUDA, or minus the signal that ended it.
int ChildExit() {
  const pid_t child = fork();
  if (child == 0) {
    int device = 0;
    std::size_t free = 0;
    std::size_t total = 0;
    const int get_device = cudaGetDevice(&device);
    const int get_info = cudaMemGetInfo(&free, &total);
    _exit(get_device * 16 % 251 + (get_info != 0));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Reset() {
  void* memory = nullptr;
  cudaMalloc(&memory, 1 << 20);
  cudaStream_t stream = NewStream();
  cudaEvent_t event = NewEvent();
  Code("reset", cudaDeviceReset());
  cudaPointerAttributes attributes = {};
  Code("attributes", cudaPointerGetAttributes(&attributes, memory));
  Say("type", attributes.type);
  Code("free_old", cudaFree(memory));
  cudaGetLastError();
  Code("new_malloc", cudaMalloc(&memory, 1 << 20));
  Code("record_old", cudaEventRecord(event, stream));
}

template <typename Function>
void Find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(DriverFunction(name));
}

struct ContextFunctions {
  CUresult (*get_current)(CUcontext*) = nullptr;
  CUresult (*set_current)(CUcontext) = nullptr;
  CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
};

bool IsBound(const ContextFunctions& driver) {
  CUcontext context = nullptr;
  driver.get_current(&context);
  return context != nullptr;
}

// A thread without a context uses that of the device for a while.
void BindAndLeave(const ContextFunctions& driver, CUcontext context) {
  int device = -1;
  Say("bound_at_first", IsBound(driver) ? 1 : 0);
  cudaGetDevice(&device);
  Say("bound_by_get_device", IsBound(driver) ? 1 : 0);
  Code("bind", driver.set_current(context));
  void* memory = nullptr;
  Code("malloc", cudaMalloc(&memory, 4096));
  Code("leave", driver.set_current(nullptr));
  Code("get_device", cudaGetDevice(&device));
  Say("device", device);
  Say("bound_afterwards", IsBound(driver) ? 1 : 0);
}

void Contexts() {
  ContextFunctions driver;
  Find("cuCtxGetCurrent", driver.get_current);
  Find("cuCtxSetCurrent", driver.set_current);
  Find("cuDevicePrimaryCtxRetain", driver.retain);
  CUcontext context = nullptr;
  Code("retain", driver.retain(&context, 0));
  std::thread(BindAndLeave, driver, context).join();
  Code("reset", cudaDeviceReset());
  Code("bind_after_reset", driver.set_current(context));
  Code("retain_after_reset", driver.retain(&context, 0));
  Code("bind_again", driver.set_current(context));
  void* memory = nullptr;
  Code("malloc_again", cudaMalloc(&memory, 4096));
}

}  // namespace

void AskAboutTheDevice() {
  // lib/memory/device/cuda/device_guard.cc
  Ask("contexts", Contexts);
  Ask("device", [] {
    SayProperties();
    SayMemory();
  });
  Ask("costs", [] {
    cudaStream_t stream = NewStream();
    SayCostsOfStreams(stream, NewStream());
    SayCostsOfWork(stream);
  });
  Ask("fork", [] {
    void* memory = nullptr;
    cudaMalloc(&memory, 4096);
    Say("child_exit", ChildExit());
    Code("parent_goes_on", cudaFree(memory));
  });
  // bindings/support/cuda_end.cc WasDeviceReset
  Ask("device_reset", Reset);
}

}  // namespace tidepool::probe
