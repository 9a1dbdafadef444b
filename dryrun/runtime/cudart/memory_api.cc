// SPDX-License-Identifier: Apache-2.0
// Memory of the device, managed memory, and memory of the host.
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/errors.h"
#include "dryrun/runtime/cudart/versioned.h"
#include "lib/base/arithmetic.h"

namespace tidepool::cudart_host {
namespace {

constexpr std::size_t kPitchAlignment = 512;
constexpr unsigned kHostAllocFlags =
    cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned kRegisterFlags = cudaHostRegisterPortable | cudaHostRegisterMapped |
                                    cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;

// Returns whether the host has memory at all of the addresses.
bool IsMapped(const void* address, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(address) & -page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(address) + bytes;
  // With MS_ASYNC, msync writes nothing back; it only fails for addresses without memory.
  return end > begin && msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) == 0;
}

}  // namespace

cudaError_t Allocate(Runtime& runtime, void** address, std::size_t bytes, MemoryKind kind,
                     unsigned flags) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) {
    return cudaErrorMemoryAllocation;
  }
  const auto size = static_cast<std::int64_t>(bytes);
  const std::shared_ptr<StandInDevice> device = runtime.CurrentDevice();
  device->FreeDueMemory();
  const absl::StatusOr<void*> allocated = kind == MemoryKind::kPinned
                                              ? device->host().AllocatePinned(size)
                                              : device->AllocateMemory(size);
  // All errors mean that there is no memory: for absurd sizes the host device has errors of its
  // own.
  if (!allocated.ok()) {
    if (kind != MemoryKind::kPinned) runtime.record.Refused(device->ordinal(), size);
    return cudaErrorMemoryAllocation;
  }
  *address = *allocated;
  runtime.memory.Insert({.address = static_cast<char*>(*allocated),
                         .bytes = size,
                         .kind = kind,
                         .device = device,
                         .flags = flags});
  if (kind == MemoryKind::kPinned) {
    runtime.record.Served(MemoryRecord::kHost, size, runtime.memory.locked_bytes());
  } else {
    runtime.record.Served(device->ordinal(), size, device->host().used_bytes());
  }
  return cudaSuccess;
}

namespace {

// Frees memory after waiting for the device, as CUDA does.
cudaError_t Free(Runtime& runtime, void* address, std::initializer_list<MemoryKind> kinds) {
  if (address == nullptr) return cudaSuccess;
  const std::optional<Region> found = runtime.memory.Find(address);
  if (!found.has_value() || found->address != address || found->device == nullptr) {
    return cudaErrorInvalidValue;
  }
  const absl::Status waited = found->device->SynchronizeAll();
  if (!waited.ok()) return cudaErrorUnknown;
  const std::optional<Region> region = runtime.memory.Remove(address, kinds);
  if (!region.has_value()) return cudaErrorInvalidValue;
  runtime.known.Forget(region->address, region->bytes);
  HostDevice& host = region->device->host();
  return ErrorOf(
      region->kind == MemoryKind::kPinned ? host.FreePinned(address) : host.FreeMemory(address),
      cudaErrorInvalidValue);
}

}  // namespace
}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Call(__func__, Needs::kContext, [&](Runtime& runtime) {
    const std::shared_ptr<StandInDevice> device = runtime.CurrentDevice();
    device->FreeDueMemory();
    if (free_bytes != nullptr) *free_bytes = static_cast<size_t>(device->free_bytes());
    if (total_bytes != nullptr) *total_bytes = static_cast<size_t>(device->memory_bytes());
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) {
    return Allocate(runtime, address, bytes, MemoryKind::kDevice, 0);
  });
}

cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned int flags) {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) {
    if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)) {
      return cudaErrorInvalidValue;
    }
    return Allocate(runtime, address, bytes, MemoryKind::kManaged, flags);
  });
}

cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) {
    if (pitch == nullptr) return cudaErrorInvalidValue;
    if (width > SIZE_MAX / 2) return cudaErrorMemoryAllocation;
    const size_t rounded = tidepool::RoundUp(width, kPitchAlignment);
    if (rounded != 0 && height > SIZE_MAX / rounded) return cudaErrorMemoryAllocation;
    *pitch = rounded;
    return Allocate(runtime, address, rounded * height, MemoryKind::kDevice, 0);
  });
}

cudaError_t cudaFree(void* address) {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) {
    return Free(runtime, address, {MemoryKind::kDevice, MemoryKind::kManaged});
  });
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned int flags) {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) {
    if ((flags & ~kHostAllocFlags) != 0) return cudaErrorInvalidValue;
    return Allocate(runtime, address, bytes, MemoryKind::kPinned, flags);
  });
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) {
    return Allocate(runtime, address, bytes, MemoryKind::kPinned, 0);
  });
}

cudaError_t cudaFreeHost(void* address) {
  return CallOutsideCaptures(
      __func__, [&](Runtime& runtime) { return Free(runtime, address, {MemoryKind::kPinned}); });
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int flags) {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) {
    if (address == nullptr || bytes == 0 || bytes > SIZE_MAX / 2 ||
        (flags & ~kRegisterFlags) != 0 || !IsMapped(address, bytes)) {
      return cudaErrorInvalidValue;
    }
    const bool is_new = runtime.memory.Insert({.address = static_cast<char*>(address),
                                               .bytes = static_cast<std::int64_t>(bytes),
                                               .kind = MemoryKind::kRegistered,
                                               .device = runtime.CurrentDevice(),
                                               .flags = flags});
    if (!is_new) return cudaErrorHostMemoryAlreadyRegistered;
    runtime.record.Served(MemoryRecord::kHost, static_cast<std::int64_t>(bytes),
                          runtime.memory.locked_bytes());
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* address) {
  return CallOutsideCaptures(__func__, [&](Runtime& runtime) {
    const std::optional<Region> found = runtime.memory.Find(address);
    if (!found.has_value() || found->kind != MemoryKind::kRegistered) {
      return cudaErrorHostMemoryNotRegistered;
    }
    if (!found->device->SynchronizeAll().ok()) return cudaErrorUnknown;
    return runtime.memory.Remove(address, {MemoryKind::kRegistered}).has_value()
               ? cudaSuccess
               : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_address, void* address, unsigned int flags) {
  return Call(__func__, Needs::kContext, [&](Runtime& runtime) {
    const std::optional<Region> found = runtime.memory.Find(address);
    if (device_address == nullptr || flags != 0 || !found.has_value() ||
        (found->kind != MemoryKind::kPinned && found->kind != MemoryKind::kRegistered)) {
      return cudaErrorInvalidValue;
    }
    *device_address = address;
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* address) {
  return Call(__func__, Needs::kContext, [&](Runtime& runtime) {
    const std::optional<Region> found = runtime.memory.Find(address);
    if (flags == nullptr || !found.has_value() || found->kind != MemoryKind::kPinned) {
      return cudaErrorInvalidValue;
    }
    *flags = found->flags | cudaHostAllocMapped;
    return cudaSuccess;
  });
}

cudaError_t cudartHostPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return Call("cudaPointerGetAttributes", Needs::kContext, [&](Runtime& runtime) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    attributes->hostPointer = const_cast<void*>(address);
    const std::optional<Region> found = runtime.memory.Find(address);
    if (!found.has_value()) return cudaSuccess;
    attributes->device = found->device->ordinal();
    attributes->devicePointer = const_cast<void*>(address);
    if (found->kind == MemoryKind::kManaged) {
      attributes->type = cudaMemoryTypeManaged;
    } else if (found->kind == MemoryKind::kDevice || found->kind == MemoryKind::kMapped) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->hostPointer = nullptr;
    } else {
      attributes->type = cudaMemoryTypeHost;
    }
    return cudaSuccess;
  });
}

cudaError_t cudartHostMemPrefetchAsync(const void* address, size_t bytes, cudaMemLocation location,
                                       unsigned int flags, cudaStream_t handle) {
  return CallOnStream("cudaMemPrefetchAsync", handle, [&](Runtime& runtime, const StreamRef&) {
    const bool is_place = location.type == cudaMemLocationTypeDevice
                              ? runtime.FindDevice(location.id) != nullptr
                              : location.type == cudaMemLocationTypeHost;
    if (!is_place) return cudaErrorInvalidDevice;
    const Region region = runtime.memory.Classify(address, static_cast<std::int64_t>(bytes));
    return flags == 0 && bytes != 0 && region.kind == MemoryKind::kManaged ? cudaSuccess
                                                                           : cudaErrorInvalidValue;
  });
}

cudaError_t cudartHostMemAdvise(const void* address, size_t bytes) {
  return Call("cudaMemAdvise", Needs::kContext, [&](Runtime& runtime) {
    const Region region = runtime.memory.Classify(address, static_cast<std::int64_t>(bytes));
    return bytes != 0 && region.kind == MemoryKind::kManaged ? cudaSuccess : cudaErrorInvalidValue;
  });
}

}  // extern "C"
