// A stream that was registered: how the pool calls it, and what is reserved for it.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_
#define TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "bindings/cnmem/reserve.h"
#include "tidepool/device.h"

namespace tidepool::cnmem {

// A program knows a stream by CUDA's handle, which CUDA gives to another one when the stream was
// destroyed; and the handle for a thread's own stream is the same in all threads. So a handle has
// had several names, and memory of each is memory of the handle. Thread-safe.
class StreamManager {
 public:
  StreamManager(cudaStream_t native, Stream name) : native_(native) { Rename(name); }

  cudaStream_t native() const { return native_; }
  // The last one.
  Stream name() const { return {.id = name_.load(std::memory_order_acquire)}; }
  void Rename(Stream name) {
    const std::lock_guard lock(mutex_);
    if (!WasNamedLocked(name)) names_.push_back(name);
    name_.store(name.id, std::memory_order_release);
  }
  bool WasNamed(Stream name) const {
    const std::lock_guard lock(mutex_);
    return WasNamedLocked(name);
  }

  // Set before others see the manager.
  std::int64_t reserved_bytes = 0;
  // What is reserved where nobody may take it; null where others may.
  std::unique_ptr<Reserve> reserve;

 private:
  bool WasNamedLocked(Stream name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  const cudaStream_t native_;
  std::atomic<std::uint64_t> name_ = 0;
  mutable std::mutex mutex_;
  std::vector<Stream> names_;
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_
