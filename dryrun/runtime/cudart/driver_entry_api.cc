// SPDX-License-Identifier: Apache-2.0
// cudaGetDriverEntryPoint: the runtime finds the driver's functions in a table of names.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>

#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/driver_memory.h"
#include "dryrun/runtime/cudart/errors.h"
#include "dryrun/runtime/cudart/memory_operations.h"
#include "dryrun/runtime/cudart/versioned.h"

namespace tidepool::cudart_host {
namespace {

CUresult Initialize(unsigned /*flags*/) { return CUDA_SUCCESS; }

CUresult DriverVersion(int* version) {
  *version = cudartHostRuntimeVersion();
  return CUDA_SUCCESS;
}

CUresult ErrorName(CUresult error, const char** name) {
  *name = DriverNameOf(error);
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult ErrorString(CUresult error, const char** words) {
  *words = DriverNameOf(error) == nullptr ? nullptr : DescriptionOf(error);
  return *words == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult DeviceGet(CUdevice* device, int ordinal) {
  if (Runtime::Get().FindDevice(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult DeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  const cudaError_t refusal = Refusal("cuDeviceGetAttribute", Needs::kNothing);
  if (refusal != cudaSuccess) return static_cast<CUresult>(refusal);
  if (Runtime::Get().FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = AttributeOf(Runtime::Get(), attribute);
  return CUDA_SUCCESS;
}

// The only context of a device.
CUcontext ContextOf(const std::shared_ptr<StandInDevice>& device) {
  return reinterpret_cast<CUcontext>(device->context_handle());
}

CUresult GetCurrentContext(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool is_bound = ThisThread().bound != ThreadState::kNone;
  *context = is_bound ? ContextOf(Runtime::Get().CurrentDevice()) : nullptr;
  return CUDA_SUCCESS;
}

CUresult SetCurrentContext(CUcontext context) {
  return static_cast<CUresult>(
      Call("cuCtxSetCurrent", Needs::kNothing, [&](Runtime& runtime) -> cudaError_t {
        int found = ThreadState::kNone;
        for (int i = 0; i < runtime.device_count(); ++i) {
          const std::shared_ptr<StandInDevice> device = runtime.FindDevice(i);
          if (ContextOf(device) == context && device->has_context()) found = i;
        }
        if (context != nullptr && found == ThreadState::kNone) return cudaErrorDeviceUninitialized;
        ThisThread().bound = found;
        return cudaSuccess;
      }));
}

CUresult RetainContext(CUcontext* context, CUdevice ordinal) {
  return static_cast<CUresult>(
      Call("cuDevicePrimaryCtxRetain", Needs::kNothing, [&](Runtime& runtime) -> cudaError_t {
        if (RefuseForked() != cudaSuccess) return RefuseForked();
        const std::shared_ptr<StandInDevice> device = runtime.FindDevice(ordinal);
        if (device == nullptr) return cudaErrorInvalidDevice;
        device->MakeContext();
        *context = ContextOf(device);
        return cudaSuccess;
      }));
}

CUresult StateOfContext(CUdevice ordinal, unsigned* flags, int* is_active) {
  if (RefuseForked() != cudaSuccess) return CUDA_ERROR_NOT_INITIALIZED;
  const std::shared_ptr<StandInDevice> device = Runtime::Get().FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *is_active = device->has_context() ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult RecordEventOfContext(CUcontext context, CUevent event) {
  return static_cast<CUresult>(
      Call("cuCtxRecordEvent", Needs::kBoundContext, [&](Runtime& runtime) {
        const bool is_current = context == ContextOf(runtime.CurrentDevice());
        return is_current ? RecordContext(runtime, event) : cudaErrorDeviceUninitialized;
      }));
}

// The one kernel that runs: it takes the time that its argument tells.
CUfunction SpinKernel() { return reinterpret_cast<CUfunction>(std::uintptr_t{0x4000}); }

CUresult ModuleLoadData(CUmodule* module, const void* image) {
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(std::uintptr_t{0x4000});
  return static_cast<CUresult>(
      Call("cuModuleLoadData", Needs::kBoundContext, [](Runtime&) { return cudaSuccess; }));
}

CUresult ModuleUnload(CUmodule /*module*/) { return CUDA_SUCCESS; }

CUresult ModuleGetFunction(CUfunction* function, CUmodule /*module*/, const char* name) {
  if (std::string_view(name) != "tidepool_spend_time") return CUDA_ERROR_NOT_FOUND;
  *function = SpinKernel();
  return CUDA_SUCCESS;
}

CUresult LaunchKernel(CUfunction function, unsigned /*grid_x*/, unsigned /*grid_y*/,
                      unsigned /*grid_z*/, unsigned /*block_x*/, unsigned /*block_y*/,
                      unsigned /*block_z*/, unsigned /*shared_bytes*/, CUstream handle,
                      void** arguments, void** /*extra*/) {
  if (function != SpinKernel()) return CUDA_ERROR_INVALID_HANDLE;
  if (ThisThread().bound == ThreadState::kNone) return CUDA_ERROR_INVALID_CONTEXT;
  const auto time = static_cast<std::int64_t>(*static_cast<const std::uint64_t*>(arguments[0]));
  return static_cast<CUresult>(
      CallOnStream("cuLaunchKernel", handle, [&](Runtime& runtime, const StreamRef& stream) {
        return QueueOrCapture(
            runtime, stream, cudaGraphNodeTypeKernel, [time](Runtime&, const StreamRef& on) {
              on.PassTime(Engine::kKernels, time);
              return ErrorOf(on.Enqueue([&] { return on.host().SpendTime(on.stream, time); }),
                             cudaErrorInvalidResourceHandle);
            });
      }));
}

// Refuses a function that programs look up and that the stand-in lacks. It reads no argument.
CUresult Unsupported() { return CUDA_ERROR_NOT_SUPPORTED; }

// Answers for functions that describe a tensor for kernels. It reads the first argument alone.
CUresult DescribeTensor(CUtensorMap* map) {
  *map = {};
  return CUDA_SUCCESS;
}

struct EntryPoint {
  std::string_view name;
  void* function;
  int version;  // the first version of the driver that has it
};

template <typename Function>
EntryPoint Entry(std::string_view name, Function* function, int version) {
  return {name, reinterpret_cast<void*>(function), version};
}

const EntryPoint kEntryPoints[] = {
    Entry("cuInit", Initialize, 2000),
    Entry("cuDriverGetVersion", DriverVersion, 2020),
    Entry("cuGetErrorName", ErrorName, 6000),
    Entry("cuGetErrorString", ErrorString, 6000),
    Entry("cuCtxGetCurrent", GetCurrentContext, 4000),
    Entry("cuCtxSetCurrent", SetCurrentContext, 4000),
    Entry("cuCtxRecordEvent", RecordEventOfContext, 12050),
    Entry("cuDevicePrimaryCtxGetState", StateOfContext, 7000),
    Entry("cuDevicePrimaryCtxRetain", RetainContext, 7000),
    Entry("cuDeviceGet", DeviceGet, 2000),
    Entry("cuDeviceGetAttribute", DeviceGetAttribute, 2000),
    Entry("cuMemGetAllocationGranularity", GetAllocationGranularity, 10020),
    Entry("cuMemAddressReserve", AddressReserve, 10020),
    Entry("cuMemAddressFree", AddressFree, 10020),
    Entry("cuMemCreate", Create, 10020),
    Entry("cuMemRelease", Release, 10020),
    Entry("cuMemRetainAllocationHandle", RetainAllocationHandle, 11000),
    Entry("cuMemMap", Map, 10020),
    Entry("cuMemUnmap", Unmap, 10020),
    Entry("cuMemSetAccess", SetAccess, 10020),
    Entry("cuMemGetAccess", GetAccess, 10020),
    Entry("cuModuleLoadData", ModuleLoadData, 2000),
    Entry("cuModuleUnload", ModuleUnload, 2000),
    Entry("cuModuleGetFunction", ModuleGetFunction, 2000),
    Entry("cuLaunchKernel", LaunchKernel, 4000),
    Entry("cuMemExportToShareableHandle", Export, 10020),
    Entry("cuMemImportFromShareableHandle", Import, 10020),
    Entry("cuMemGetAllocationPropertiesFromHandle", Unsupported, 10020),
    Entry("cuMemsetD32Async", Unsupported, 3020),
    Entry("cuStreamWriteValue32", Unsupported, 8000),
    Entry("cuMemGetAddressRange", Unsupported, 3020),
    Entry("cuTensorMapEncodeTiled", DescribeTensor, 12000),
    Entry("cuTensorMapEncodeIm2col", DescribeTensor, 12000),
};

cudaError_t Find(const char* function, const char* symbol, void** entry, unsigned version,
                 cudaDriverEntryPointQueryResult* status) {
  return Call(function, Needs::kNothing, [&](Runtime&) {
    if (symbol == nullptr || entry == nullptr || *symbol == '\0') return cudaErrorInvalidValue;
    const auto* found =
        std::find_if(std::begin(kEntryPoints), std::end(kEntryPoints),
                     [&](const EntryPoint& candidate) { return candidate.name == symbol; });
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
    if (found == std::end(kEntryPoints)) {
      result = cudaDriverEntryPointSymbolNotFound;
    } else if (static_cast<unsigned>(found->version) > version) {
      result = cudaDriverEntryPointVersionNotSufficent;
    }
    *entry = result == cudaDriverEntryPointSuccess ? found->function : nullptr;
    if (status != nullptr) *status = result;
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace tidepool::cudart_host

using tidepool::cudart_host::Find;

extern "C" {

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** entry, unsigned long long /*flags*/,
                                    cudaDriverEntryPointQueryResult* status) {
  return Find(__func__, symbol, entry, cudartHostRuntimeVersion(), status);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** entry,
                                         unsigned long long /*flags*/,
                                         cudaDriverEntryPointQueryResult* status) {
  return Find(__func__, symbol, entry, cudartHostRuntimeVersion(), status);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** entry, unsigned version,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* status) {
  return Find(__func__, symbol, entry, version, status);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** entry,
                                                  unsigned version, unsigned long long /*flags*/,
                                                  cudaDriverEntryPointQueryResult* status) {
  return Find(__func__, symbol, entry, version, status);
}

}  // extern "C"
