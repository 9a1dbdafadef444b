// SPDX-License-Identifier: Apache-2.0
// A registered stream: its names in the pool, and its reserved memory.
#ifndef TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_
#define TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "bindings/cnmem/reserve.h"
#include "lib/locks/mutex.h"
#include "tidepool/device.h"

namespace tidepool::cnmem {

// A program knows a stream by CUDA's handle. CUDA reuses the handle of a destroyed stream, and all
// threads share the handle of their own streams (cudaStreamPerThread). So a handle may have had
// several names, and memory of each name belongs to the handle. Thread-safe.
class StreamManager {
 public:
  StreamManager(cudaStream_t native, Stream name) : native_(native) { Rename(name); }

  cudaStream_t native() const { return native_; }
  // Returns the latest name.
  Stream name() const { return {.id = name_.load(std::memory_order_acquire)}; }
  void Rename(Stream name) {
    const locks::MutexLock lock(&mutex_);
    if (!WasNamedLocked(name)) names_.push_back(name);
    name_.store(name.id, std::memory_order_release);
  }
  bool WasNamed(Stream name) const {
    const locks::MutexLock lock(&mutex_);
    return WasNamedLocked(name);
  }

  // Set before other threads see the manager.
  std::int64_t reserved_bytes = 0;
  // The reserved memory that no other stream may take; null: other streams may take it.
  std::unique_ptr<Reserve> reserve;

 private:
  bool WasNamedLocked(Stream name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  const cudaStream_t native_;
  std::atomic<std::uint64_t> name_ = 0;
  mutable locks::Mutex mutex_;
  std::vector<Stream> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_STREAM_MANAGER_H_
