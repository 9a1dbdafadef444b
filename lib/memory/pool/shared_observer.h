// SPDX-License-Identifier: Apache-2.0
// SharedObserver and RegionObserver: one observer for a pool and its regions, which have locks of
// their own.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_SHARED_OBSERVER_H_
#define TIDEPOOL_LIB_MEMORY_POOL_SHARED_OBSERVER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/locks/mutex.h"
#include "tidepool/pool_observer.h"

namespace tidepool::pool {

// Passes calls on one at a time. Thread-safe.
class SharedObserver final : public PoolObserver {
 public:
  explicit SharedObserver(PoolObserver& observer) : observer_(observer) {}

  void Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) override {
    const locks::MutexLock lock(&mutex_);
    observer_.Allocate(address, bytes, hint, stream);
  }
  void Free(const void* address, Stream stream) override {
    const locks::MutexLock lock(&mutex_);
    observer_.Free(address, stream);
  }
  void Failure(std::int64_t bytes, Hint hint, Stream stream) override {
    const locks::MutexLock lock(&mutex_);
    observer_.Failure(bytes, hint, stream);
  }
  void Wait(Stream stream, Stream awaited) override {
    const locks::MutexLock lock(&mutex_);
    observer_.Wait(stream, awaited);
  }
  void Mark(std::string_view name) override {
    const locks::MutexLock lock(&mutex_);
    observer_.Mark(name);
  }
  void AllocateIn(std::string_view region, const void* address, std::int64_t bytes, Hint hint,
                  Stream stream) override {
    const locks::MutexLock lock(&mutex_);
    observer_.AllocateIn(region, address, bytes, hint, stream);
  }
  void FailureIn(std::string_view region, std::int64_t bytes, Hint hint, Stream stream) override {
    const locks::MutexLock lock(&mutex_);
    observer_.FailureIn(region, bytes, hint, stream);
  }
  void Pause(std::string_view region, SleepMode mode, Stream stream) override {
    const locks::MutexLock lock(&mutex_);
    observer_.Pause(region, mode, stream);
  }
  void Resume(std::string_view region, Stream stream) override {
    const locks::MutexLock lock(&mutex_);
    observer_.Resume(region, stream);
  }
  void AddRange(const void* begin, std::int64_t bytes) override {
    const locks::MutexLock lock(&mutex_);
    observer_.AddRange(begin, bytes);
  }
  void RemoveRange(const void* begin) override {
    const locks::MutexLock lock(&mutex_);
    observer_.RemoveRange(begin);
  }

 private:
  locks::Mutex mutex_;  // the last one that a thread takes
  PoolObserver& observer_ ABSL_GUARDED_BY(mutex_);
};

// Tells the shared observer of the requests of one region. Thread-safe.
class RegionObserver final : public PoolObserver {
 public:
  RegionObserver(PoolObserver& shared, std::string tag) : shared_(shared), tag_(std::move(tag)) {}

  void Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) override {
    shared_.AllocateIn(tag_, address, bytes, hint, stream);
  }
  void Free(const void* address, Stream stream) override { shared_.Free(address, stream); }
  void Failure(std::int64_t bytes, Hint hint, Stream stream) override {
    shared_.FailureIn(tag_, bytes, hint, stream);
  }
  void Wait(Stream stream, Stream awaited) override { shared_.Wait(stream, awaited); }
  void Mark(std::string_view name) override { shared_.Mark(name); }
  void AddRange(const void* begin, std::int64_t bytes) override { shared_.AddRange(begin, bytes); }
  void RemoveRange(const void* begin) override { shared_.RemoveRange(begin); }

 private:
  PoolObserver& shared_;
  const std::string tag_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_SHARED_OBSERVER_H_
