// SPDX-License-Identifier: Apache-2.0
// A stream that a binding knows by its handle, and its names in the pool.
#ifndef TIDEPOOL_BINDINGS_SUPPORT_STREAM_NAMES_H_
#define TIDEPOOL_BINDINGS_SUPPORT_STREAM_NAMES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "lib/base/locks/mutex.h"
#include "tidepool/device.h"

namespace tidepool::bindings {

// CUDA reuses the handle of a destroyed stream, and all threads share the handle of their own
// streams (cudaStreamPerThread). So a handle may have had several names, and memory of each name
// belongs to the handle. Thread-safe.
class StreamNames {
 public:
  explicit StreamNames(Stream name) { Rename(name); }

  // Returns the latest name; 0 after Forget.
  Stream name() const { return {.id = name_.load(std::memory_order_acquire)}; }
  void Rename(Stream name) {
    const locks::MutexLock lock(&mutex_);
    if (!WasNamedLocked(name)) names_.push_back(name);
    name_.store(name.id, std::memory_order_release);
  }
  // Leaves the handle without a name until the next Rename.
  void Forget() { name_.store(0, std::memory_order_release); }
  // Returns all names so far, the oldest first.
  std::vector<Stream> names() const {
    const locks::MutexLock lock(&mutex_);
    return names_;
  }
  // Forgets the names that are not used, but for the last.
  void KeepUsed(absl::FunctionRef<bool(Stream)> is_used) {
    const locks::MutexLock lock(&mutex_);
    const Stream last = names_.back();
    std::erase_if(names_, [&](Stream name) { return !(name == last) && !is_used(name); });
  }
  bool WasNamed(Stream name) const {
    const locks::MutexLock lock(&mutex_);
    return WasNamedLocked(name);
  }

 private:
  bool WasNamedLocked(Stream name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  std::atomic<std::uint64_t> name_ = 0;
  mutable locks::Mutex mutex_;
  std::vector<Stream> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::bindings

#endif  // TIDEPOOL_BINDINGS_SUPPORT_STREAM_NAMES_H_
