// SPDX-License-Identifier: Apache-2.0
// The driver's virtual memory, made of the host device's.
#include "dryrun/runtime/cudart/driver_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dryrun/runtime/cudart/call.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {
namespace {

// The counterpart of Call for functions of the driver, which keep no last error.
template <typename Body>
CUresult DriverCall(const char* function, Body body) {
  const cudaError_t refusal = Refusal(function, Needs::kContext);
  if (refusal != cudaSuccess) return static_cast<CUresult>(refusal);
  Runtime& runtime = Runtime::Get();
  if (runtime.config().has_virtual_memory == 0) return CUDA_ERROR_NOT_SUPPORTED;
  const locks::MutexLock lock(&runtime.driver_mutex);
  return body(runtime);
}

CUresult ResultOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return CUDA_SUCCESS;
    case absl::StatusCode::kResourceExhausted:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_UNKNOWN;
  }
}

std::int64_t Size(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }
char* Pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }

bool IsMultiple(Runtime& runtime, std::size_t bytes) {
  return bytes > 0 && bytes % static_cast<std::size_t>(runtime.config().granularity) == 0 &&
         bytes <= SIZE_MAX / 4;
}

CUresult CheckProperties(Runtime& runtime, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return runtime.FindDevice(properties->location.id) == nullptr ? CUDA_ERROR_INVALID_DEVICE
                                                                : CUDA_SUCCESS;
}

// Returns the device that reserved all of the range, or null.
std::shared_ptr<StandInDevice> ReservedBy(Runtime& runtime, const char* address,
                                          std::size_t bytes) {
  const locks::MutexLock lock(&runtime.reservations_mutex);
  for (const Reservation& each : runtime.reservations) {
    if (each.address <= address && Size(bytes) <= each.bytes &&
        address - each.address <= each.bytes - Size(bytes)) {
      return each.device;
    }
  }
  return nullptr;
}

bool IsAccess(Runtime& runtime, const CUmemAccessDesc& access) {
  return access.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
         runtime.FindDevice(access.location.id) != nullptr &&
         (access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
          access.flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
          access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

// Returns whether memory can be shared: no process reads data that another one wrote.
bool IsShared(Runtime& runtime, CUmemAllocationHandleType type) {
  return runtime.config().has_data == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

std::vector<Region> MappedIn(Runtime& runtime, CUdeviceptr address, std::size_t bytes) {
  if (address == 0 || !IsMultiple(runtime, bytes)) return {};
  std::vector<Region> regions = runtime.memory.Cover(Pointer(address), Size(bytes));
  const bool all_mapped = std::all_of(regions.begin(), regions.end(), [](const Region& region) {
    return region.kind == MemoryKind::kMapped;
  });
  return all_mapped ? regions : std::vector<Region>();
}

}  // namespace

CUresult GetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* properties,
                                  CUmemAllocationGranularity_flags /*option*/) {
  return DriverCall("cuMemGetAllocationGranularity", [&](Runtime& runtime) {
    if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = CheckProperties(runtime, properties);
    if (result != CUDA_SUCCESS) return result;
    *granularity = static_cast<std::size_t>(runtime.config().granularity);
    return CUDA_SUCCESS;
  });
}

CUresult AddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                        CUdeviceptr /*hint*/, unsigned long long flags) {
  return DriverCall("cuMemAddressReserve", [&](Runtime& runtime) {
    if (address == nullptr || !IsMultiple(runtime, bytes) || flags != 0 ||
        (alignment & (alignment - 1)) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (Size(alignment) > runtime.config().granularity) return CUDA_ERROR_NOT_SUPPORTED;
    const std::shared_ptr<StandInDevice> device = runtime.CurrentDevice();
    const absl::StatusOr<void*> reserved = device->host().ReserveAddresses(Size(bytes));
    if (!reserved.ok()) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<CUdeviceptr>(*reserved);
    const locks::MutexLock lock(&runtime.reservations_mutex);
    runtime.reservations.push_back({device, static_cast<char*>(*reserved), Size(bytes)});
    return CUDA_SUCCESS;
  });
}

CUresult AddressFree(CUdeviceptr address, std::size_t bytes) {
  return DriverCall("cuMemAddressFree", [&](Runtime& runtime) {
    const locks::MutexLock lock(&runtime.reservations_mutex);
    const auto found = std::find_if(
        runtime.reservations.begin(), runtime.reservations.end(), [&](const Reservation& each) {
          return each.address == Pointer(address) && each.bytes == Size(bytes);
        });
    if (found == runtime.reservations.end()) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result =
        ResultOf(found->device->host().ReleaseAddresses(Pointer(address), Size(bytes)));
    if (result == CUDA_SUCCESS) runtime.reservations.erase(found);
    return result;
  });
}

CUresult Create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                const CUmemAllocationProp* properties, unsigned long long flags) {
  return DriverCall("cuMemCreate", [&](Runtime& runtime) {
    if (handle == nullptr || !IsMultiple(runtime, bytes) || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result = CheckProperties(runtime, properties);
    if (result != CUDA_SUCCESS) return result;
    const bool is_for_network = properties->allocFlags.gpuDirectRDMACapable != 0;
    if (is_for_network && runtime.config().network_memory == 0) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<StandInDevice> device = runtime.FindDevice(properties->location.id);
    device->FreeDueMemory();
    const absl::StatusOr<PhysicalMemory> memory = device->CreatePhysical(Size(bytes));
    if (!memory.ok()) {
      runtime.record.Refused(device->ordinal(), Size(bytes));
      return ResultOf(memory.status());
    }
    runtime.record.Served(device->ordinal(), Size(bytes), device->host().used_bytes());
    *handle = runtime.physical_handles.Add(
        {.physical = std::make_shared<Physical>(device, *memory, Size(bytes), is_for_network)});
    return CUDA_SUCCESS;
  });
}

CUresult Release(CUmemGenericAllocationHandle handle) {
  return DriverCall("cuMemRelease", [&](Runtime& runtime) {
    return runtime.physical_handles.Remove(handle).has_value() ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult RetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return DriverCall("cuMemRetainAllocationHandle", [&](Runtime& runtime) {
    const std::optional<Region> region = runtime.memory.Find(address);
    if (handle == nullptr || !region.has_value() || region->kind != MemoryKind::kMapped) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = runtime.physical_handles.Add({.physical = region->physical});
    return CUDA_SUCCESS;
  });
}

CUresult Export(int* file, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                unsigned long long flags) {
  return DriverCall("cuMemExportToShareableHandle", [&](Runtime& runtime) {
    const std::optional<PhysicalHandle> found = runtime.physical_handles.Find(handle);
    if (file == nullptr || !found.has_value() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!IsShared(runtime, type)) return CUDA_ERROR_NOT_SUPPORTED;
    *file = memfd_create("tidepool", MFD_CLOEXEC);
    if (*file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    return ftruncate(*file, found->physical->bytes) == 0 ? CUDA_SUCCESS
                                                         : CUDA_ERROR_OPERATING_SYSTEM;
  });
}

CUresult Import(CUmemGenericAllocationHandle* handle, void* file, CUmemAllocationHandleType type) {
  return DriverCall("cuMemImportFromShareableHandle", [&](Runtime& runtime) {
    struct stat found = {};
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!IsShared(runtime, type)) return CUDA_ERROR_NOT_SUPPORTED;
    if (fstat(static_cast<int>(reinterpret_cast<std::intptr_t>(file)), &found) != 0 ||
        !IsMultiple(runtime, static_cast<std::size_t>(found.st_size))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *handle = runtime.physical_handles.Add(
        {.physical = std::make_shared<Physical>(runtime.CurrentDevice(), found.st_size)});
    return CUDA_SUCCESS;
  });
}

CUresult Map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
             CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return DriverCall("cuMemMap", [&](Runtime& runtime) {
    const std::optional<PhysicalHandle> found = runtime.physical_handles.Find(handle);
    if (!found.has_value() || offset != 0 || flags != 0 ||
        address % static_cast<CUdeviceptr>(runtime.config().granularity) != 0 ||
        Size(bytes) != found->physical->bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const std::shared_ptr<StandInDevice> addresses_of =
        ReservedBy(runtime, Pointer(address), bytes);
    if (addresses_of == nullptr || runtime.memory.Overlaps(Pointer(address), Size(bytes))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const Physical& physical = *found->physical;
    if (addresses_of != physical.device) return CUDA_ERROR_NOT_SUPPORTED;
    if (!physical.is_of_a_peer) {
      const absl::Status status = physical.device->host().Map(Pointer(address), physical.memory);
      if (!status.ok()) return ResultOf(status);
    }
    runtime.memory.Insert({.address = Pointer(address),
                           .bytes = Size(bytes),
                           .kind = MemoryKind::kMapped,
                           .device = physical.device,
                           .physical = found->physical});
    return CUDA_SUCCESS;
  });
}

CUresult Unmap(CUdeviceptr address, std::size_t bytes) {
  return DriverCall("cuMemUnmap", [&](Runtime& runtime) {
    const std::vector<Region> regions = MappedIn(runtime, address, bytes);
    if (regions.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (const Region& region : regions) {
      if (!region.physical->is_of_a_peer) {
        const absl::Status status = region.device->host().Unmap(region.address);
        if (!status.ok()) return ResultOf(status);
      }
      runtime.memory.Remove(region.address, {MemoryKind::kMapped});
    }
    return CUDA_SUCCESS;
  });
}

CUresult SetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                   std::size_t count) {
  return DriverCall("cuMemSetAccess", [&](Runtime& runtime) {
    const std::vector<Region> regions = MappedIn(runtime, address, bytes);
    if (regions.empty() || access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      if (!IsAccess(runtime, access[i])) return CUDA_ERROR_INVALID_VALUE;
    }
    const auto is_for_network = [](const Region& region) {
      return region.physical->is_for_network;
    };
    if (runtime.config().network_memory == 2 && std::ranges::any_of(regions, is_for_network)) {
      return CUDA_ERROR_UNKNOWN;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t device = std::uint64_t{1} << access[i].location.id;
      const bool is_given = access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      for (const Region& region : regions) {
        runtime.memory.SetAccess(region.address, is_given ? device : 0, is_given ? 0 : device);
      }
    }
    return CUDA_SUCCESS;
  });
}

CUresult GetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  return DriverCall("cuMemGetAccess", [&](Runtime& runtime) {
    const std::optional<Region> region = runtime.memory.Find(Pointer(address));
    if (flags == nullptr || location == nullptr || !region.has_value() ||
        location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        runtime.FindDevice(location->id) == nullptr || region->kind != MemoryKind::kMapped) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const bool is_given = (region->access >> location->id & 1) != 0;
    *flags = is_given ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

}  // namespace tidepool::cudart_host
