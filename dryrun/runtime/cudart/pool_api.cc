// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory, and CUDA's memory pools. The stand-in caches nothing: freed memory is
// given back when its stream has reached the free.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "dryrun/runtime/cudart/call.h"
#include "dryrun/runtime/cudart/errors.h"
#include "dryrun/runtime/cudart/memory_operations.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {
namespace {

cudaMemPool_t HandleOf(std::uintptr_t handle) { return reinterpret_cast<cudaMemPool_t>(handle); }
std::uintptr_t NumberOf(cudaMemPool_t pool) { return reinterpret_cast<std::uintptr_t>(pool); }

// The default pools of devices, made on first use.
class DefaultPools {
 public:
  std::uintptr_t Get(Runtime& runtime, int device) {
    const locks::MutexLock lock(&mutex_);
    std::uintptr_t& handle = handles_[device];
    if (handle == 0 || !runtime.pools.Find(handle).has_value()) {
      handle = runtime.pools.Add(
          {.device = device, .is_default = true, .attributes = std::make_shared<Attributes>()});
    }
    return handle;
  }

  // Returns the pool of SetCurrent while it exists, else the default pool.
  std::uintptr_t Current(Runtime& runtime, int device) {
    {
      const locks::MutexLock lock(&mutex_);
      const auto found = current_.find(device);
      if (found != current_.end() && runtime.pools.Find(found->second).has_value()) {
        return found->second;
      }
    }
    return Get(runtime, device);
  }
  void SetCurrent(int device, std::uintptr_t pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    current_[device] = pool;
  }

  using Attributes = absl::flat_hash_map<int, std::uint64_t>;

  locks::Mutex& mutex() { return mutex_; }

 private:
  locks::Mutex mutex_;
  absl::flat_hash_map<int, std::uintptr_t> handles_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, std::uintptr_t> current_ ABSL_GUARDED_BY(mutex_);
};

DefaultPools& Pools() {
  static DefaultPools* const pools = new DefaultPools();
  return *pools;
}

bool IsWord(cudaMemPoolAttr attribute) { return attribute >= cudaMemPoolAttrReleaseThreshold; }

cudaError_t AllocateOn(Runtime& runtime, const StreamRef& stream, void** address, size_t bytes) {
  const int bound = ThisThread().bound;
  ThisThread().bound = stream.device->ordinal();
  const cudaError_t error = Allocate(runtime, address, bytes, MemoryKind::kDevice, 0);
  ThisThread().bound = bound;
  return error;
}

cudaError_t GetPoolOf(const char* function, cudaMemPool_t* pool, int device,
                      std::uintptr_t (DefaultPools::*get)(Runtime&, int)) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) {
    if (pool == nullptr) return cudaErrorInvalidValue;
    if (runtime.FindDevice(device) == nullptr) return cudaErrorInvalidDevice;
    *pool = HandleOf((Pools().*get)(runtime, device));
    return cudaSuccess;
  });
}

// Calls `body` with a pool, if it exists. One call runs at a time.
template <typename Body>
cudaError_t CallWithPool(const char* function, cudaMemPool_t handle, Body body) {
  return Call(function, Needs::kContext, [&](Runtime& runtime) -> cudaError_t {
    const std::optional<MemoryPool> pool = runtime.pools.Find(NumberOf(handle));
    if (!pool.has_value()) return cudaErrorInvalidValue;
    const locks::MutexLock lock(&Pools().mutex());
    return body(runtime, *pool);
  });
}

}  // namespace
}  // namespace tidepool::cudart_host

using namespace tidepool::cudart_host;  // NOLINT: the C functions below use all of it

extern "C" {

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t handle) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    const cudaError_t refusal = runtime.captures.RefuseQuery(stream);
    return refusal != cudaSuccess ? refusal : AllocateOn(runtime, stream, address, bytes);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t handle) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    if (!runtime.pools.Find(NumberOf(pool)).has_value()) return cudaErrorInvalidValue;
    const cudaError_t refusal = runtime.captures.RefuseQuery(stream);
    return refusal != cudaSuccess ? refusal : AllocateOn(runtime, stream, address, bytes);
  });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  return CallOnStream(__func__, handle, [&](Runtime& runtime, const StreamRef& stream) {
    if (address == nullptr) return cudaSuccess;
    const cudaError_t refusal = runtime.captures.RefuseQuery(stream);
    if (refusal != cudaSuccess) return refusal;
    const std::optional<Region> region = runtime.memory.Find(address);
    if (!region.has_value() || region->address != address || region->device != stream.device ||
        !runtime.memory.Remove(address, {MemoryKind::kDevice}).has_value()) {
      return cudaErrorInvalidValue;
    }
    return ErrorOf(stream.device->FreeLater(address, stream.stream, stream.kind),
                   cudaErrorInvalidResourceHandle);
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return GetPoolOf(__func__, pool, device, &DefaultPools::Get);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return GetPoolOf(__func__, pool, device, &DefaultPools::Current);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return Call(__func__, Needs::kContext, [&](Runtime& runtime) {
    if (pool == nullptr || properties == nullptr ||
        properties->allocType != cudaMemAllocationTypePinned ||
        properties->location.type != cudaMemLocationTypeDevice) {
      return cudaErrorInvalidValue;
    }
    if (runtime.FindDevice(properties->location.id) == nullptr) return cudaErrorInvalidDevice;
    *pool =
        HandleOf(runtime.pools.Add({.device = properties->location.id,
                                    .is_default = false,
                                    .attributes = std::make_shared<DefaultPools::Attributes>()}));
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return Call(__func__, Needs::kContext, [&](Runtime& runtime) {
    const std::optional<MemoryPool> pool = runtime.pools.Find(NumberOf(handle));
    if (!pool.has_value() || pool->is_default) return cudaErrorInvalidValue;
    runtime.pools.Remove(NumberOf(handle));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle) {
  return CallWithPool(__func__, handle, [&](Runtime& runtime, const MemoryPool& pool) {
    if (runtime.FindDevice(device) == nullptr || pool.device != device) {
      return cudaErrorInvalidDevice;
    }
    Pools().SetCurrent(device, NumberOf(handle));
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const cudaMemAccessDesc* accesses,
                                 size_t count) {
  return CallWithPool(__func__, handle, [&](Runtime& runtime, const MemoryPool& pool) {
    if (accesses == nullptr && count != 0) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (accesses[i].location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
      if (runtime.FindDevice(accesses[i].location.id) == nullptr) return cudaErrorInvalidDevice;
      if (accesses[i].location.id == pool.device &&
          accesses[i].flags == cudaMemAccessFlagsProtNone) {
        return cudaErrorInvalidDevice;  // a device keeps access to its own memory
      }
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t /*keep_bytes*/) {
  return CallWithPool(__func__, handle, [](Runtime& runtime, const MemoryPool& pool) {
    runtime.FindDevice(pool.device)->FreeDueMemory();
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return CallWithPool(__func__, handle, [&](Runtime&, const MemoryPool& pool) {
    if (value == nullptr) return cudaErrorInvalidValue;
    (*pool.attributes)[attribute] = IsWord(attribute)
                                        ? *static_cast<const std::uint64_t*>(value)
                                        : static_cast<std::uint64_t>(*static_cast<int*>(value));
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return CallWithPool(__func__, handle, [&](Runtime&, const MemoryPool& pool) {
    if (value == nullptr) return cudaErrorInvalidValue;
    const auto found = pool.attributes->find(attribute);
    const std::uint64_t number = found == pool.attributes->end() ? 0 : found->second;
    if (IsWord(attribute)) {
      *static_cast<std::uint64_t*>(value) = number;
    } else {
      *static_cast<int*>(value) = static_cast<int>(number);
    }
    return cudaSuccess;
  });
}

}  // extern "C"
