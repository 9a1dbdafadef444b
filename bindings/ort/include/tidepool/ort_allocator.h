// SPDX-License-Identifier: Apache-2.0
// An allocator for ONNX Runtime on a pool: an OrtAllocator with requests on streams, statistics
// and, from API version 25 on, Shrink. Needs C++17, onnxruntime_c_api.h of API version 23 or newer,
// and libtidepool_c.so.
//
//   tidepool::OrtPoolAllocator allocator(*api, "device=host");
//   api->RegisterAllocator(environment, &allocator);
//   api->AddSessionConfigEntry(options, "session.use_env_allocators", "1");
#ifndef TIDEPOOL_ORT_ALLOCATOR_H_
#define TIDEPOOL_ORT_ALLOCATOR_H_

#include <onnxruntime_c_api.h>

#include <cstddef>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <unordered_set>

#include "tidepool/pool_owner.h"

namespace tidepool {

// Outlives the environment that it is registered with. Thread-safe.
class OrtPoolAllocator : public OrtAllocator {
 public:
  // Makes a pool; `options` are those of tidepool_pool_create. `stream` is the stream of requests
  // without one: on a CUDA device, the session's user_compute_stream.
  OrtPoolAllocator(const OrtApi& api, const std::string& options, tidepool_stream stream = nullptr)
      : OrtAllocator(), api_(api), pool_(options), stream_(stream) {
    int ordinal = 0;
    PoolOwner<>::Check(tidepool_get_device(pool(), &ordinal));
    const bool is_host = ordinal < 0;
    OrtStatus* const status =
        api.CreateMemoryInfo(is_host ? "Cpu" : "Cuda", OrtDeviceAllocator, is_host ? 0 : ordinal,
                             OrtMemTypeDefault, &info_);
    if (status != nullptr) {
      const std::string text = api.GetErrorMessage(status);
      api.ReleaseStatus(status);
      throw std::runtime_error("tidepool: ONNX Runtime: " + text);
    }
    version = ORT_API_VERSION;
    OrtAllocator::Alloc = &AllocateDefault;
    OrtAllocator::Free = &FreeAny;
    OrtAllocator::Info = &InfoOf;
    OrtAllocator::Reserve = &AllocateDefault;
    OrtAllocator::GetStats = &StatisticsOf;
    OrtAllocator::AllocOnStream = &AllocateOnStream;
#if ORT_API_VERSION >= 25
    OrtAllocator::Shrink = &Trim;
#endif
  }
  ~OrtPoolAllocator() { api_.ReleaseMemoryInfo(info_); }
  OrtPoolAllocator(const OrtPoolAllocator&) = delete;
  OrtPoolAllocator& operator=(const OrtPoolAllocator&) = delete;

  tidepool_pool* pool() const noexcept { return pool_.get(); }

 private:
  static OrtPoolAllocator& Self(OrtAllocator* allocator) {
    return *static_cast<OrtPoolAllocator*>(allocator);
  }
  static const OrtPoolAllocator& Self(const OrtAllocator* allocator) {
    return *static_cast<const OrtPoolAllocator*>(allocator);
  }

  // Throws OutOfMemory when memory is short: ONNX Runtime 1.27 makes an error of the run from it,
  // but writes through a null pointer.
  void* Allocate(std::size_t bytes, tidepool_stream stream) {
    void* const address = pool_.Allocate(bytes, 1, stream);
    if (address == nullptr || stream == stream_) return address;
    try {
      const std::lock_guard<std::mutex> lock(mutex_);
      on_streams_.insert(address);
    } catch (...) {
      pool_.Free(address, stream);
      throw;
    }
    return address;
  }
  // Returns whether an allocation was made on a stream of a request, and forgets that.
  bool TakeFromStreams(void* address) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return on_streams_.erase(address) > 0;
  }

  static void* ORT_API_CALL AllocateDefault(OrtAllocator* allocator, std::size_t bytes) {
    OrtPoolAllocator& self = Self(allocator);
    return self.Allocate(bytes, self.stream_);
  }
  static void* ORT_API_CALL AllocateOnStream(OrtAllocator* allocator, std::size_t bytes,
                                             OrtSyncStream* stream) {
    OrtPoolAllocator& self = Self(allocator);
    return self.Allocate(bytes,
                         stream == nullptr ? self.stream_ : self.api_.SyncStream_GetHandle(stream));
  }
  static void ORT_API_CALL FreeAny(OrtAllocator* allocator, void* address) {
    if (address == nullptr) return;
    OrtPoolAllocator& self = Self(allocator);
    // The stream of a request may have ended with its session.
    if (self.TakeFromStreams(address)) {
      static_cast<void>(tidepool_free_late(self.pool(), address));
    } else {
      self.pool_.Free(address, self.stream_);
    }
  }
  static const OrtMemoryInfo* ORT_API_CALL InfoOf(const OrtAllocator* allocator) {
    return Self(allocator).info_;
  }
  static OrtStatus* ORT_API_CALL StatisticsOf(const OrtAllocator* allocator,
                                              OrtKeyValuePairs** out) noexcept {
    const OrtPoolAllocator& self = Self(allocator);
    tidepool_statistics statistics = {};
    statistics.struct_size = sizeof statistics;
    if (tidepool_get_statistics(self.pool(), &statistics) != TIDEPOOL_OK) {
      return self.api_.CreateStatus(ORT_FAIL, tidepool_last_error());
    }
    self.api_.CreateKeyValuePairs(out);
    const auto add = [&](const char* key, std::size_t value) {
      self.api_.AddKeyValuePair(*out, key, std::to_string(value).c_str());
    };
    add("Limit", statistics.max_bytes);
    add("InUse", statistics.live_bytes);
    add("TotalAllocated", statistics.reserved_bytes);
    add("MaxInUse", statistics.peak_live_bytes);
    add("NumAllocs", statistics.allocations);
    add("NumArenaExtensions", statistics.growths);
    return nullptr;
  }
#if ORT_API_VERSION >= 25
  static OrtStatus* ORT_API_CALL Trim(OrtAllocator* allocator) noexcept {
    const OrtPoolAllocator& self = Self(allocator);
    if (tidepool_trim(self.pool(), 0, nullptr) == TIDEPOOL_OK) return nullptr;
    return self.api_.CreateStatus(ORT_FAIL, tidepool_last_error());
  }
#endif

  const OrtApi& api_;
  PoolOwner<> pool_;
  const tidepool_stream stream_;
  OrtMemoryInfo* info_ = nullptr;
  std::mutex mutex_;
  std::unordered_set<void*> on_streams_;  // allocations on streams of requests
};

}  // namespace tidepool

#endif  // TIDEPOOL_ORT_ALLOCATOR_H_
