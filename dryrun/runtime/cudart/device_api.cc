// SPDX-License-Identifier: Apache-2.0
// Devices: their number, their properties, the current device, and reset.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/settings.h"
#include "dryrun/runtime/cudart/versioned.h"

namespace tidepool::cudart_host {
namespace {

// The attributes that are not 0. The runtime and the driver use the same numbers.
struct Attribute {
  int number;
  int value;
};
constexpr int kVirtualMemoryAttribute = 102;  // of the driver
constexpr int kNetworkMemoryAttribute = 110;  // likewise
constexpr int kReservedSharedBytes = 1024;    // of each block
constexpr Attribute kAttributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 2147483647},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrGpuOverlap, 1},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrAsyncEngineCount, 2},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrConcurrentManagedAccess, 1},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrMemoryPoolsSupported, 1},
    {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
    {cudaDevAttrMaxSharedMemoryPerBlock, 49152},
    {cudaDevAttrReservedSharedMemoryPerBlock, kReservedSharedBytes},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrTotalConstantMemory, 65536},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrCooperativeLaunch, 1},
};
constexpr int kGreatestPriority = -5;
constexpr std::size_t kGreatestPitch = 2147483647;

}  // namespace

int AttributeOf(Runtime& runtime, int number) {
  const CudartHostConfig config = runtime.config();
  switch (number) {
    case kVirtualMemoryAttribute:
      return config.has_virtual_memory != 0 ? 1 : 0;
    case kNetworkMemoryAttribute:
      return config.network_memory != 0 ? 1 : 0;
    case cudaDevAttrComputeCapabilityMajor:
      return config.capability / 10;
    case cudaDevAttrComputeCapabilityMinor:
      return config.capability % 10;
    case cudaDevAttrIntegrated:
      return config.is_integrated != 0 ? 1 : 0;
    case cudaDevAttrMultiProcessorCount:
      return config.multiprocessors;
    case cudaDevAttrL2CacheSize:
      return config.l2_bytes;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return config.threads_per_multiprocessor;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return config.shared_bytes_per_block;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return config.shared_bytes_per_block + kReservedSharedBytes;
    default:
      break;
  }
  for (const Attribute& attribute : kAttributes) {
    if (attribute.number == number) return attribute.value;
  }
  return 0;
}

namespace {

void Describe(StandInDevice& device, Runtime& runtime, cudaDeviceProp& properties) {
  properties = {};
  if (const char* const name = std::getenv("CUDART_HOST_NAME"); name != nullptr) {
    std::snprintf(properties.name, sizeof(properties.name), "%s", name);
  } else {
    std::snprintf(properties.name, sizeof(properties.name), "tidepool stand-in, no GPU (%d)",
                  device.ordinal());
  }
  properties.uuid.bytes[0] = 't';
  properties.uuid.bytes[15] = static_cast<char>(NumberInMachine(device.ordinal()));
  const auto is = [&](int number) { return AttributeOf(runtime, number); };
  properties.totalGlobalMem = static_cast<std::size_t>(device.memory_bytes());
  properties.warpSize = is(cudaDevAttrWarpSize);
  properties.memPitch = kGreatestPitch;
  properties.maxThreadsPerBlock = is(cudaDevAttrMaxThreadsPerBlock);
  for (int i = 0; i < 3; ++i) {
    properties.maxThreadsDim[i] = is(cudaDevAttrMaxBlockDimX + i);
    properties.maxGridSize[i] = is(cudaDevAttrMaxGridDimX + i);
  }
  properties.major = is(cudaDevAttrComputeCapabilityMajor);
  properties.minor = is(cudaDevAttrComputeCapabilityMinor);
  properties.textureAlignment = static_cast<std::size_t>(is(cudaDevAttrTextureAlignment));
  properties.multiProcessorCount = is(cudaDevAttrMultiProcessorCount);
  properties.integrated = is(cudaDevAttrIntegrated);
  properties.canMapHostMemory = is(cudaDevAttrCanMapHostMemory);
  properties.asyncEngineCount = is(cudaDevAttrAsyncEngineCount);
  properties.unifiedAddressing = is(cudaDevAttrUnifiedAddressing);
  properties.streamPrioritiesSupported = is(cudaDevAttrStreamPrioritiesSupported);
  properties.managedMemory = is(cudaDevAttrManagedMemory);
  properties.concurrentManagedAccess = is(cudaDevAttrConcurrentManagedAccess);
  properties.canUseHostPointerForRegisteredMem = is(cudaDevAttrCanUseHostPointerForRegisteredMem);
  properties.hostRegisterSupported = is(cudaDevAttrHostRegisterSupported);
  properties.memoryPoolsSupported = is(cudaDevAttrMemoryPoolsSupported);
  const auto size_of = [&](int number) { return static_cast<std::size_t>(is(number)); };
  properties.maxThreadsPerMultiProcessor = is(cudaDevAttrMaxThreadsPerMultiProcessor);
  properties.maxBlocksPerMultiProcessor = is(cudaDevAttrMaxBlocksPerMultiprocessor);
  properties.sharedMemPerBlock = size_of(cudaDevAttrMaxSharedMemoryPerBlock);
  properties.sharedMemPerBlockOptin = size_of(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  properties.sharedMemPerMultiprocessor = size_of(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  properties.reservedSharedMemPerBlock = size_of(cudaDevAttrReservedSharedMemoryPerBlock);
  properties.regsPerBlock = is(cudaDevAttrMaxRegistersPerBlock);
  properties.regsPerMultiprocessor = is(cudaDevAttrMaxRegistersPerMultiprocessor);
  properties.l2CacheSize = is(cudaDevAttrL2CacheSize);
  properties.totalConstMem = size_of(cudaDevAttrTotalConstantMemory);
  properties.concurrentKernels = is(cudaDevAttrConcurrentKernels);
  properties.cooperativeLaunch = is(cudaDevAttrCooperativeLaunch);
  properties.pciBusID = NumberInMachine(device.ordinal());
}

// Calls `body` with the device `ordinal`, if it exists.
template <typename Body>
cudaError_t CallWithDevice(const char* function, int ordinal, Body body) {
  return Call(function, Needs::kNothing, [&](Runtime& runtime) -> cudaError_t {
    if (RefuseForked() != cudaSuccess) return RefuseForked();
    const std::shared_ptr<StandInDevice> device = runtime.FindDevice(ordinal);
    if (device == nullptr) {
      return runtime.device_count() == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice;
    }
    return body(runtime, *device);
  });
}

cudaError_t Done(Runtime& /*runtime*/) { return cudaSuccess; }

}  // namespace
}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return Call(__func__, Needs::kNothing, [&](Runtime& runtime) {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = runtime.device_count();
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return CallWithDevice(__func__, device, [&](Runtime&, StandInDevice& its) {
    ThisThread().device = device;
    BindContext(its);
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned int /*device_flags*/, unsigned int /*flags*/) {
  return CallWithDevice(__func__, device, [](Runtime&, StandInDevice& its) {
    its.MakeContext();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return Call(__func__, Needs::kDevice, [&](Runtime&) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = ThisThread().current();
    return cudaSuccess;
  });
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* properties) {
  return Call(__func__, Needs::kDevice, [&](Runtime&) {
    if (device == nullptr || properties == nullptr) return cudaErrorInvalidValue;
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t cudartHostGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  return CallWithDevice("cudaGetDeviceProperties", ordinal,
                        [&](Runtime& runtime, StandInDevice& device) {
                          if (properties == nullptr) return cudaErrorInvalidValue;
                          Describe(device, runtime, *properties);
                          return cudaSuccess;
                        });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int ordinal) {
  return CallWithDevice(__func__, ordinal, [&](Runtime& runtime, StandInDevice&) {
    if (value == nullptr || attribute <= 0 || attribute >= cudaDevAttrMax) {
      return cudaErrorInvalidValue;
    }
    *value = AttributeOf(runtime, attribute);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int ordinal) {
  return CallWithDevice(__func__, ordinal, [&](Runtime&, StandInDevice&) {
    if (text == nullptr || bytes < 13) return cudaErrorInvalidValue;
    std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0",
                  static_cast<unsigned>(NumberInMachine(ordinal)) & 0xff);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Call(__func__, Needs::kDevice, [&](Runtime&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) -> cudaError_t {
    const std::shared_ptr<StandInDevice> device = runtime.CurrentDevice();
    // No mode allows it: the device encompasses the streams that capture.
    const cudaError_t refusal = runtime.captures.RefuseContext(*device);
    if (refusal != cudaSuccess) return refusal;
    if (!device->SynchronizeAll().ok()) return cudaErrorUnknown;
    device->FreeDueMemory();
    return static_cast<cudaError_t>(device->broken_with());
  });
}

cudaError_t cudaDeviceReset() {
  return Call(__func__, Needs::kDevice, [&](Runtime& runtime) {
    runtime.ResetDevice(ThisThread().current());
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return CallWithDevice(__func__, device, [&](Runtime& runtime, StandInDevice&) {
    if (can == nullptr) return cudaErrorInvalidValue;
    if (runtime.FindDevice(peer) == nullptr) return cudaErrorInvalidDevice;
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return Call(__func__, Needs::kContext, [&](Runtime& runtime) {
    if (flags != 0) return cudaErrorInvalidValue;
    const std::shared_ptr<StandInDevice> device = runtime.CurrentDevice();
    if (runtime.FindDevice(peer) == nullptr || peer == device->ordinal()) {
      return cudaErrorInvalidDevice;
    }
    return device->EnablePeer(peer) ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return Call(__func__, Needs::kContext, [&](Runtime& runtime) {
    if (runtime.FindDevice(peer) == nullptr) return cudaErrorInvalidDevice;
    return runtime.CurrentDevice()->DisablePeer(peer) ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned int /*flags*/) {
  return Call(__func__, Needs::kDevice, Done);
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return Call(__func__, Needs::kDevice, [&](Runtime&) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = cudaDeviceMapHost;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return Call(__func__, Needs::kNothing, [&](Runtime&) {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = cudartHostRuntimeVersion();
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return Call(__func__, Needs::kNothing, [&](Runtime&) {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = cudartHostRuntimeVersion();
    return cudaSuccess;
  });
}

cudaError_t cudaProfilerStart() { return Call(__func__, Needs::kDevice, Done); }
cudaError_t cudaProfilerStop() { return Call(__func__, Needs::kDevice, Done); }

}  // extern "C"
