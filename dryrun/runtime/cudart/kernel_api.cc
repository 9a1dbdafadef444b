// SPDX-License-Identifier: Apache-2.0
// The functions that compiled kernels call. Kernels register before main, so registration succeeds.
// A launch fails, unless the configuration has kernels: then it takes its time in the stream and
// does nothing else.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "dryrun/runtime/cudart/assumed_time.h"
#include "dryrun/runtime/cudart/attention.h"
#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/control.h"
#include "dryrun/runtime/cudart/errors.h"
#include "dryrun/runtime/cudart/kernel_bytes.h"
#include "dryrun/runtime/cudart/known_copies.h"
#include "dryrun/runtime/cudart/memory_operations.h"
#include "dryrun/runtime/cudart/own_stream.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {
namespace {

void WarnOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    std::fputs(
        "cudart_host: a kernel was launched, but this stand-in for the CUDA runtime "
        "cannot run kernels (with CUDART_HOST_KERNELS=1 they do nothing)\n",
        stderr);
  });
}

std::int64_t ThreadsOf(const KernelLaunch& launch) {
  const dim3 grid = launch.grid;
  const dim3 block = launch.block;
  return std::int64_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
}

// Compiled kernels, by the functions that stand for them on the host. Thread-safe.
class Kernels {
 public:
  void Add(const void* host, const char* name) {
    const locks::MutexLock lock(&mutex_);
    kernels_[host] = {.name = name, .known = nullptr};
  }
  std::string NameOf(const void* host) const {
    const locks::MutexLock lock(&mutex_);
    const auto found = kernels_.find(host);
    return found == kernels_.end() ? "unregistered" : found->second.name;
  }
  // Returns the work of a launch. Bytes are a guess from its threads where they are not known.
  KernelWork WorkOf(const void* host, const KernelLaunch& launch) {
    const locks::MutexLock lock(&mutex_);
    const auto found = kernels_.find(host);
    if (found == kernels_.end()) return {.bytes = AssumedBytesOf(ThreadsOf(launch))};
    const KernelBytes& known = KnownOf(found->second);
    const std::int64_t bytes = known.Of(launch);
    return {.bytes = bytes < 0 ? AssumedBytesOf(ThreadsOf(launch)) : bytes,
            .operations = OperationsOfAttention(known.parts(), launch)};
  }

 private:
  struct Kernel {
    std::string name;
    std::unique_ptr<const KernelBytes> known;  // from the first launch on
  };

  static const KernelBytes& KnownOf(Kernel& kernel) {
    if (kernel.known == nullptr) {
      kernel.known = std::make_unique<const KernelBytes>(kernel.name.c_str());
    }
    return *kernel.known;
  }

  mutable locks::Mutex mutex_;
  absl::flat_hash_map<const void*, Kernel> kernels_ ABSL_GUARDED_BY(mutex_);
};

// Is never destroyed: libraries register kernels until the end of the process.
Kernels& Compiled() {
  static Kernels* const kernels = new Kernels();
  return *kernels;
}

KernelLaunch LaunchOf(const cudaLaunchConfig_t* config, void** arguments) {
  if (config == nullptr) return {.grid = {}, .block = {}, .arguments = arguments};
  return {.grid = config->gridDim, .block = config->blockDim, .arguments = arguments};
}

// Lets the stream be busy for the time of a kernel.
cudaError_t QueueKernelTime(Runtime& runtime, const StreamRef& stream) {
  const std::chrono::nanoseconds time(runtime.config().kernel_nanoseconds);
  if (time.count() == 0) return cudaSuccess;
  return ErrorOf(stream.Enqueue([&] {
    return stream.host().CallHost(stream.stream, [time] { std::this_thread::sleep_for(time); });
  }),
                 cudaErrorInvalidResourceHandle);
}

// Launches a kernel, which `queue` queues: it moves the clock of events, and forgets data.
template <typename Queue>
cudaError_t Launch(const char* function, cudaStream_t handle, std::string name, Queue queue) {
  return CallOnStream(function, handle, [&](Runtime& runtime, const StreamRef& stream) {
    if (runtime.config().has_kernels == 0) {
      WarnOnce();
      return cudaErrorNotSupported;
    }
    return QueueOrCapture(runtime, stream, cudaGraphNodeTypeKernel,
                          [queue, name = std::move(name)](Runtime& again, const StreamRef& on) {
                            again.kernels.Note(name);
                            const absl::Status queued = queue(again, on);
                            return queued.ok() ? QueueKernelTime(again, on)
                                               : ErrorOf(queued, cudaErrorInvalidResourceHandle);
                          });
  });
}

thread_local std::int64_t moved_bytes = -1;  // by each kernel, or unknown

// Lets work of a library pass its time, beside that of a launch.
void PassLaunch(const Runtime& runtime, const StreamRef& stream, Engine engine, double seconds) {
  const std::int64_t launch = AssumedTime(runtime.config(), 0);
  if (launch > 0) stream.PassTime(engine, launch + static_cast<std::int64_t>(seconds * 1e9));
}

cudaError_t Launch(const char* function, const void* kernel, const KernelLaunch& launch,
                   cudaStream_t handle) {
  const KernelWork work =
      moved_bytes < 0 ? Compiled().WorkOf(kernel, launch) : KernelWork{.bytes = moved_bytes};
  return Launch(function, handle, Compiled().NameOf(kernel),
                [work](Runtime& runtime, const StreamRef& stream) {
                  stream.PassTime(Engine::kKernels, AssumedTimeOfKernel(runtime.config(), work));
                  return QueueForgetting(runtime, stream);
                });
}

// Calls `body` where kernels do nothing.
template <typename Body>
cudaError_t CallAboutKernels(const char* function, Body body) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) -> cudaError_t {
    return runtime.config().has_kernels == 0 ? cudaErrorNotSupported : body(runtime);
  });
}

// Returns the newest architecture of common libraries that the device runs. Libraries choose the
// sizes of their scratch memory by it.
int CompiledArchitecture(int capability) {
  int found = 75;
  for (const int architecture : {80, 86, 90, 100, 120}) {
    if (architecture <= capability) found = architecture;
  }
  return found;
}

// Counts the blocks that fit by threads alone.
cudaError_t CountBlocks(const char* function, int* blocks, int block_size) {
  return CallAboutKernels(function, [&](Runtime& runtime) {
    if (blocks == nullptr || block_size <= 0) return cudaErrorInvalidValue;
    *blocks = AttributeOf(runtime, cudaDevAttrMaxThreadsPerMultiProcessor) / block_size;
    return cudaSuccess;
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
}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

void cudartHostRunKernel(const char* name, void* handle, double seconds, void* output,
                         long long bytes) {
  if (Runtime::Get().config().has_kernels == 0) return;
  Launch(__func__, static_cast<cudaStream_t>(handle), name,
         [=](Runtime& runtime, const StreamRef& stream) {
           PassLaunch(runtime, stream, Engine::kKernels, seconds);
           return output == nullptr
                      ? QueueForgetting(runtime, stream)
                      : QueueForgettingOf(runtime, stream, static_cast<char*>(output), bytes);
         });
}

void cudartHostKernelsMove(long long bytes) { moved_bytes = bytes; }

void cudartHostExchange(void* handle, double seconds) {
  CallOnStream(__func__, static_cast<cudaStream_t>(handle),
               [seconds](Runtime& runtime, const StreamRef& stream) {
                 return QueueOrCapture(runtime, stream, cudaGraphNodeTypeKernel,
                                       [seconds](Runtime& again, const StreamRef& on) {
                                         PassLaunch(again, on, Engine::kPeers, seconds);
                                         return cudaSuccess;
                                       });
               });
}

void** __cudaRegisterFatBinary(void* /*binary*/) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}
void __cudaUnregisterFatBinary(void** /*handle*/) {}
void __cudaRegisterFunction(void** /*handle*/, const char* host, char* /*device*/, const char* name,
                            int /*limit*/, uint3* /*thread*/, uint3* /*block*/,
                            dim3* /*block_size*/, dim3* /*grid_size*/, int* /*warp_size*/) {
  Compiled().Add(host, name);
}
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

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t /*shared_bytes*/, cudaStream_t stream) {
  return Launch(__func__, kernel, {grid, block, arguments}, stream);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t /*shared_bytes*/, cudaStream_t stream) {
  return Launch(__func__, kernel, {grid, block, arguments}, OrOwn(stream));
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t /*shared_bytes*/, cudaStream_t stream) {
  return Launch(__func__, kernel, {grid, block, arguments}, stream);
}
cudaError_t cudaLaunchKernel_ptsz(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                  size_t /*shared_bytes*/, cudaStream_t stream) {
  return Launch(__func__, kernel, {grid, block, arguments}, OrOwn(stream));
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                void** arguments) {
  return Launch(__func__, kernel, LaunchOf(config, arguments),
                config == nullptr ? nullptr : config->stream);
}
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* kernel,
                                     void** arguments) {
  return Launch(__func__, kernel, LaunchOf(config, arguments),
                OrOwn(config == nullptr ? nullptr : config->stream));
}
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                        size_t /*shared_bytes*/, cudaStream_t stream) {
  return Launch(__func__, kernel, {grid, block, arguments}, stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  return CallAboutKernels(__func__, [&](Runtime& runtime) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {};
    attributes->maxThreadsPerBlock = AttributeOf(runtime, cudaDevAttrMaxThreadsPerBlock);
    attributes->numRegs = 32;
    attributes->binaryVersion = CompiledArchitecture(runtime.config().capability);
    attributes->ptxVersion = attributes->binaryVersion;
    attributes->maxDynamicSharedSizeBytes =
        AttributeOf(runtime, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* /*kernel*/, cudaFuncAttribute /*attribute*/,
                                 int /*value*/) {
  return CallAboutKernels(__func__, [](Runtime&) { return cudaSuccess; });
}

cudaError_t cudaFuncSetCacheConfig(const void* /*kernel*/, cudaFuncCache /*config*/) {
  return CallAboutKernels(__func__, [](Runtime&) { return cudaSuccess; });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* /*kernel*/,
                                                          int block_size, size_t /*shared_bytes*/) {
  return CountBlocks(__func__, blocks, block_size);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* /*kernel*/,
                                                                   int block_size,
                                                                   size_t /*shared_bytes*/,
                                                                   unsigned /*flags*/) {
  return CountBlocks(__func__, blocks, block_size);
}

}  // extern "C"
