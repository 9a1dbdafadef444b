// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 in terms of the runtime: the functions that PyTorch, CuPy and Numba call. Contexts
// are the primary contexts of devices. Modules are empty, and their kernels do nothing.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dryrun/runtime/cudart/control.h"
#include "dryrun/runtime/cudart/versioned.h"

namespace {

// Both interfaces use the same numbers.
CUresult Result(cudaError_t error) { return static_cast<CUresult>(error); }

void* Pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

constexpr std::uintptr_t kFirstContext = 0x1000;

CUcontext ContextOf(int device) {
  return reinterpret_cast<CUcontext>(kFirstContext + static_cast<std::uintptr_t>(device));
}
int DeviceOf(CUcontext context) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(context) - kFirstContext);
}

// The contexts that cuCtxPushCurrent has covered.
std::vector<CUcontext>& Covered() {
  thread_local std::vector<CUcontext> contexts;
  return contexts;
}

CUresult CurrentContext(CUcontext* context) {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  *context = error == cudaSuccess ? ContextOf(device) : nullptr;
  return Result(error);
}

template <typename Use>
CUresult WithProperties(CUdevice device, Use use) {
  cudaDeviceProp properties;
  const cudaError_t error = cudartHostGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) use(properties);
  return Result(error);
}

// A kernel of a module: one handle for all, since none does anything.
constexpr std::uintptr_t kModule = 0x2000;
constexpr std::uintptr_t kFunction = 0x3000;

CUresult LoadNothing(CUmodule* module) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = reinterpret_cast<CUmodule>(kModule);
  return CUDA_SUCCESS;
}

CUresult LaunchNothing(CUfunction function, dim3 grid, dim3 block, cudaStream_t stream) {
  return Result(cudaLaunchKernel(function, grid, block, nullptr, 0, stream));
}

// Finds a function of this library. The newest variant of a name has the largest number.
void* FindFunction(const char* name) {
  static void* const self = [] {
    Dl_info info;
    const auto inside = reinterpret_cast<void*>(&cuInit);
    return dladdr(inside, &info) != 0 ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  }();
  for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
    void* const found = dlsym(self, (std::string(name) + suffix).c_str());
    if (found != nullptr) return found;
  }
  return nullptr;
}

// Notes that the program holds NVIDIA's own runtime, linked statically: only that one asks for the
// tables of the driver, and it cannot go on without them.
void NoteOwnRuntime() {
  const char* const folder = std::getenv("CUDART_HOST_FOLDER");
  if (folder == nullptr) return;
  std::FILE* const file = std::fopen((std::string(folder) + "/own-runtime").c_str(), "w");
  if (file != nullptr) static_cast<void>(std::fclose(file));
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int /*flags*/) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return Result(cudaDriverGetVersion(version)); }

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int /*version*/,
                             cuuint64_t /*flags*/, CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (std::strcmp(symbol, "cuGetExportTable") == 0) NoteOwnRuntime();
  *function = FindFunction(symbol);
  const bool is_found = *function != nullptr;
  if (status != nullptr) {
    *status = is_found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return is_found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// NVRTC asks for such a table too, and does without it, but it needs the function.
CUresult cuGetExportTable(const void** table, const CUuuid* /*name*/) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetErrorString(CUresult error, const char** words) {
  *words = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

// Devices
// ------------------------------------------------------------------------------------------

CUresult cuDeviceGetCount(int* count) {
  const cudaError_t error = cudaGetDeviceCount(count);
  return error == cudaErrorNoDevice ? CUDA_SUCCESS : Result(error);
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return WithProperties(ordinal, [](const cudaDeviceProp&) {});
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return Result(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}
CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  return WithProperties(device, [&](const cudaDeviceProp& properties) {
    std::snprintf(name, static_cast<std::size_t>(bytes), "%s", properties.name);
  });
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return WithProperties(device, [&](const cudaDeviceProp& properties) {
    std::memcpy(uuid, &properties.uuid, sizeof(*uuid));
  });
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return WithProperties(
      device, [&](const cudaDeviceProp& properties) { *bytes = properties.totalGlobalMem; });
}
CUresult cuDeviceGetPCIBusId(char* text, int bytes, CUdevice device) {
  return Result(cudaDeviceGetPCIBusId(text, bytes, device));
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return Result(cudaDeviceCanAccessPeer(can, device, peer));
}

// Contexts
// -----------------------------------------------------------------------------------------

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* is_active) {
  *flags = 0;
  *is_active = cudartHostHasContext(device);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = ContextOf(device);
  return WithProperties(device, [](const cudaDeviceProp&) {});
}
CUresult cuDevicePrimaryCtxRelease(CUdevice /*device*/) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxReset(CUdevice /*device*/) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxSetFlags(CUdevice /*device*/, unsigned int /*flags*/) {
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) { return CurrentContext(context); }
CUresult cuCtxSetCurrent(CUcontext context) {
  return context == nullptr ? CUDA_SUCCESS : Result(cudaSetDevice(DeviceOf(context)));
}
CUresult cuCtxGetDevice(CUdevice* device) { return Result(cudaGetDevice(device)); }
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  if (context == nullptr) return Result(cudaGetDevice(device));
  *device = DeviceOf(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
  CUcontext covered = nullptr;
  const CUresult error = CurrentContext(&covered);
  if (error != CUDA_SUCCESS) return error;
  Covered().push_back(covered);
  return cuCtxSetCurrent(context);
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  if (Covered().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) static_cast<void>(CurrentContext(context));
  const CUcontext covered = Covered().back();
  Covered().pop_back();
  return cuCtxSetCurrent(covered);
}
// Limits of printf and of stacks, which kernels that do nothing cannot reach.
CUresult cuCtxSetLimit(CUlimit /*limit*/, size_t /*value*/) { return CUDA_SUCCESS; }
CUresult cuCtxGetLimit(size_t* value, CUlimit /*limit*/) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return Result(cudaDeviceSynchronize()); }
CUresult cuCtxGetFlags(unsigned int* flags) {
  *flags = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetApiVersion(CUcontext /*context*/, unsigned int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  *id = reinterpret_cast<std::uintptr_t>(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  return Result(cudaDeviceEnablePeerAccess(DeviceOf(peer), flags));
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return Result(cudaDeviceGetStreamPriorityRange(least, greatest));
}

// Memory
// -------------------------------------------------------------------------------------------

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Result(cudaMemGetInfo(free_bytes, total_bytes));
}
CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  return Result(cudaMalloc(reinterpret_cast<void**>(address), bytes));
}
CUresult cuMemFree(CUdeviceptr address) { return Result(cudaFree(Pointer(address))); }
CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int flags) {
  return Result(cudaMallocManaged(reinterpret_cast<void**>(address), bytes, flags));
}
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return Result(cudaMallocAsync(reinterpret_cast<void**>(address), bytes, stream));
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return Result(cudaFreeAsync(Pointer(address), stream));
}
CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned int flags) {
  return Result(cudaHostAlloc(address, bytes, flags));
}
CUresult cuMemAllocHost(void** address, size_t bytes) {
  return Result(cudaMallocHost(address, bytes));
}
CUresult cuMemFreeHost(void* address) { return Result(cudaFreeHost(address)); }
CUresult cuMemHostRegister(void* address, size_t bytes, unsigned int flags) {
  return Result(cudaHostRegister(address, bytes, flags));
}
CUresult cuMemHostUnregister(void* address) { return Result(cudaHostUnregister(address)); }
CUresult cuMemHostGetDevicePointer(CUdeviceptr* device_address, void* address, unsigned int flags) {
  return Result(cudaHostGetDevicePointer(reinterpret_cast<void**>(device_address), address, flags));
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  cudaPointerAttributes attributes;
  const cudaError_t error = cudartHostPointerGetAttributes(&attributes, Pointer(address));
  if (error != cudaSuccess) return Result(error);
  if (attributes.type == cudaMemoryTypeUnregistered) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = attributes.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) =
          attributes.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) = ContextOf(attributes.device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(value) = attributes.type == cudaMemoryTypeManaged ? 1 : 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  for (unsigned i = 0; i < count; ++i) {
    const CUresult error = cuPointerGetAttribute(values[i], attributes[i], address);
    if (error != CUDA_SUCCESS) return error;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return Result(cudaMemcpy(Pointer(to), from, bytes, cudaMemcpyHostToDevice));
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return Result(cudaMemcpy(to, Pointer(from), bytes, cudaMemcpyDeviceToHost));
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Result(cudaMemcpy(Pointer(to), Pointer(from), bytes, cudaMemcpyDeviceToDevice));
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Result(cudaMemcpyAsync(Pointer(to), from, bytes, cudaMemcpyHostToDevice, stream));
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Result(cudaMemcpyAsync(to, Pointer(from), bytes, cudaMemcpyDeviceToHost, stream));
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Result(
      cudaMemcpyAsync(Pointer(to), Pointer(from), bytes, cudaMemcpyDeviceToDevice, stream));
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Result(cudaMemcpyAsync(Pointer(to), Pointer(from), bytes, cudaMemcpyDefault, stream));
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes) {
  return Result(cudaMemset(Pointer(to), value, bytes));
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  return Result(cudaMemsetAsync(Pointer(to), value, bytes, stream));
}

// Streams and events
// -------------------------------------------------------------------------------

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return Result(cudaStreamCreateWithFlags(stream, flags));
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return Result(cudaStreamCreateWithPriority(stream, flags, priority));
}
CUresult cuStreamDestroy(CUstream stream) { return Result(cudaStreamDestroy(stream)); }
CUresult cuStreamSynchronize(CUstream stream) { return Result(cudaStreamSynchronize(stream)); }
CUresult cuStreamQuery(CUstream stream) { return Result(cudaStreamQuery(stream)); }
CUresult cuStreamGetFlags(CUstream stream, unsigned int* flags) {
  return Result(cudaStreamGetFlags(stream, flags));
}
CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  return Result(cudaStreamGetPriority(stream, priority));
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  int device = 0;
  const cudaError_t error = cudaStreamGetDevice(stream, &device);
  *context = ContextOf(device);
  return Result(error);
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return Result(cudaStreamWaitEvent(stream, event, flags));
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  cudaStreamCaptureStatus of_runtime = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream, &of_runtime);
  *status = static_cast<CUstreamCaptureStatus>(of_runtime);
  return Result(error);
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return Result(cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(mode)));
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   const CUgraphEdgeData** edges, size_t* count) {
  cudaStreamCaptureStatus of_runtime = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  const cudaError_t error =
      cudartHostStreamGetCaptureInfo(stream, &of_runtime, &number, graph, dependencies,
                                     reinterpret_cast<const cudaGraphEdgeData**>(edges), count);
  *status = static_cast<CUstreamCaptureStatus>(of_runtime);
  if (id != nullptr) *id = number;
  return Result(error);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return Result(cudaStreamEndCapture(stream, graph));
}
// Objects that graphs keep live as long as the process.
CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn /*destroy*/,
                            unsigned int /*references*/, unsigned int /*flags*/) {
  *object = static_cast<CUuserObject>(data);
  return CUDA_SUCCESS;
}
CUresult cuUserObjectRelease(CUuserObject /*object*/, unsigned int /*count*/) {
  return CUDA_SUCCESS;
}
CUresult cuGraphRetainUserObject(CUgraph /*graph*/, CUuserObject /*object*/, unsigned int /*count*/,
                                 unsigned int /*flags*/) {
  return CUDA_SUCCESS;
}
CUresult cuGraphReleaseUserObject(CUgraph /*graph*/, CUuserObject /*object*/,
                                  unsigned int /*count*/) {
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return Result(cudaGraphInstantiateWithFlags(exec, graph, flags));
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  parameters->hErrNode_out = nullptr;
  const cudaError_t error = cudaGraphInstantiate(exec, graph, parameters->flags);
  parameters->result_out =
      error == cudaSuccess ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return Result(error);
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return Result(cudaGraphLaunch(exec, stream));
}
CUresult cuGraphDestroy(CUgraph graph) { return Result(cudaGraphDestroy(graph)); }
CUresult cuGraphExecDestroy(CUgraphExec exec) { return Result(cudaGraphExecDestroy(exec)); }
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data,
                             unsigned int flags) {
  return Result(
      cudaStreamAddCallback(stream, reinterpret_cast<cudaStreamCallback_t>(callback), data, flags));
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return Result(cudaLaunchHostFunc(stream, function, data));
}
CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  return Result(cudaEventCreateWithFlags(event, flags));
}
CUresult cuEventDestroy(CUevent event) { return Result(cudaEventDestroy(event)); }
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return Result(cudaEventRecord(event, stream));
}
CUresult cuEventQuery(CUevent event) { return Result(cudaEventQuery(event)); }
CUresult cuEventSynchronize(CUevent event) { return Result(cudaEventSynchronize(event)); }
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return Result(cudaEventElapsedTime(milliseconds, start, end));
}

// Modules and kernels
// ------------------------------------------------------------------------------

CUresult cuModuleLoad(CUmodule* module, const char* /*name*/) { return LoadNothing(module); }
CUresult cuModuleLoadData(CUmodule* module, const void* /*image*/) { return LoadNothing(module); }
CUresult cuModuleLoadDataEx(CUmodule* module, const void* /*image*/, unsigned int /*count*/,
                            CUjit_option* /*options*/, void** /*values*/) {
  return LoadNothing(module);
}
CUresult cuModuleUnload(CUmodule /*module*/) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule /*module*/, const char* name) {
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = reinterpret_cast<CUfunction>(kFunction);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, function);
  if (error != cudaSuccess) return Result(error);
  *value = 0;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) *value = attributes.maxThreadsPerBlock;
  if (attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION) *value = attributes.ptxVersion;
  if (attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION) *value = attributes.binaryVersion;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction /*function*/, CUfunction_attribute /*attribute*/,
                            int /*value*/) {
  return CUDA_SUCCESS;
}
CUresult cuFuncSetCacheConfig(CUfunction /*function*/, CUfunc_cache /*config*/) {
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                     int block_size, size_t shared_bytes) {
  return Result(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size, shared_bytes));
}
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction /*function*/,
                                          CUoccupancyB2DSize /*shared_bytes*/, size_t /*bytes*/,
                                          int /*limit*/) {
  *grid = 1;
  return Result(cudaDeviceGetAttribute(block, cudaDevAttrMaxThreadsPerBlock, 0));
}
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int /*shared_bytes*/, CUstream stream,
                        void** /*arguments*/, void** /*extra*/) {
  return LaunchNothing(function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z),
                       stream);
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int /*shared_bytes*/,
                                   CUstream stream, void** /*arguments*/) {
  return LaunchNothing(function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z),
                       stream);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** /*arguments*/,
                          void** /*extra*/) {
  return LaunchNothing(function, dim3(config->gridDimX, config->gridDimY, config->gridDimZ),
                       dim3(config->blockDimX, config->blockDimY, config->blockDimZ),
                       config->hStream);
}

// PyTorch links with these, and calls none of them on the stand-in.
CUresult cuLinkCreate(unsigned int /*count*/, CUjit_option* /*options*/, void** /*values*/,
                      CUlinkState* /*state*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuLinkAddData(CUlinkState /*state*/, CUjitInputType /*type*/, void* /*data*/,
                       size_t /*bytes*/, const char* /*name*/, unsigned int /*count*/,
                       CUjit_option* /*options*/, void** /*values*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuLinkComplete(CUlinkState /*state*/, void** /*cubin*/, size_t* /*bytes*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Descriptions of tensors, which only kernels read.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  *map = {};
  return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const int*, const int*,
                                 cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
  *map = {};
  return CUDA_SUCCESS;
}

}  // extern "C"
