// SPDX-License-Identifier: Apache-2.0
// The functions that compiled kernels call. Kernels register before main, so registration succeeds;
// a launch never does.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <mutex>

#include "tests/support/cudart_host/call.h"

namespace {

using tidepool::cudart_host::Call;
using tidepool::cudart_host::Needs;
using tidepool::cudart_host::Runtime;

void WarnOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::fputs(
        "cudart_host: a kernel was launched, but this stand-in for the CUDA runtime "
        "cannot run kernels\n",
        stderr);
  });
}

cudaError_t RefuseLaunch(const char* function) {
  return Call(function, Needs::kContext, [](Runtime&) {
    WarnOnce();
    return cudaErrorNotSupported;
  });
}

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local CallConfiguration pushed;

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
void __cudaRegisterFunction(void** /*handle*/, const char* /*host*/, char* /*device*/,
                            const char* /*name*/, int /*limit*/, uint3* /*thread*/,
                            uint3* /*block*/, dim3* /*block_size*/, dim3* /*grid_size*/,
                            int* /*warp_size*/) {}
void __cudaRegisterVar(void** /*handle*/, char* /*host*/, char* /*device*/, const char* /*name*/,
                       int /*ext*/, size_t /*bytes*/, int /*constant*/, int /*global*/) {}
void __cudaRegisterManagedVar(void** /*handle*/, void** /*host*/, char* /*device*/,
                              const char* /*name*/, int /*ext*/, size_t /*bytes*/, int /*constant*/,
                              int /*global*/) {}
void __cudaRegisterHostVar(void** /*handle*/, const char* /*name*/, char* /*host*/,
                           size_t /*bytes*/) {}
char __cudaInitModule(void** /*handle*/) { return 0; }

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
  pushed = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_bytes = pushed.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* entry) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(entry));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                               void** /*arguments*/, size_t /*shared_bytes*/,
                               cudaStream_t /*stream*/) {
  return RefuseLaunch(__func__);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                                    void** /*arguments*/, size_t /*shared_bytes*/,
                                    cudaStream_t /*stream*/) {
  return RefuseLaunch(__func__);
}
cudaError_t cudaLaunchKernel(const void* /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                             void** /*arguments*/, size_t /*shared_bytes*/,
                             cudaStream_t /*stream*/) {
  return RefuseLaunch(__func__);
}
cudaError_t cudaLaunchKernel_ptsz(const void* /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                                  void** /*arguments*/, size_t /*shared_bytes*/,
                                  cudaStream_t /*stream*/) {
  return RefuseLaunch(__func__);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* /*config*/, const void* /*kernel*/,
                                void** /*arguments*/) {
  return RefuseLaunch(__func__);
}
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* /*config*/, const void* /*kernel*/,
                                     void** /*arguments*/) {
  return RefuseLaunch(__func__);
}
cudaError_t cudaLaunchCooperativeKernel(const void* /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                                        void** /*arguments*/, size_t /*shared_bytes*/,
                                        cudaStream_t /*stream*/) {
  return RefuseLaunch(__func__);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* /*attributes*/, const void* /*kernel*/) {
  return RefuseLaunch(__func__);
}

}  // extern "C"
