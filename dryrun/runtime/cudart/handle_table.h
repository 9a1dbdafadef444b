// SPDX-License-Identifier: Apache-2.0
// Handles as CUDA gives them out: pointers that only their maker understands, and that are reused
// as soon as they are free.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_HANDLE_TABLE_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_HANDLE_TABLE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {

// A table from handles to values. Values are copied out, so removing a handle does not affect a
// caller that found it before. Thread-safe.
template <typename T>
class HandleTable {
 public:
  // The handles of different kinds differ, and none is an address of memory.
  explicit HandleTable(std::uintptr_t kind) : next_((kind << 40) + kStep) {}

  std::uintptr_t Add(T value) {
    const locks::MutexLock lock(&mutex_);
    std::uintptr_t handle = next_;
    if (free_.empty()) {
      next_ += kStep;
    } else {
      handle = free_.back();
      free_.pop_back();
    }
    values_.emplace(handle, std::move(value));
    return handle;
  }

  std::optional<T> Find(std::uintptr_t handle) const {
    const locks::MutexLock lock(&mutex_);
    const auto found = values_.find(handle);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }

  std::optional<T> Remove(std::uintptr_t handle) {
    const locks::MutexLock lock(&mutex_);
    const auto found = values_.find(handle);
    if (found == values_.end()) return std::nullopt;
    std::optional<T> value = std::move(found->second);
    values_.erase(found);
    free_.push_back(handle);
    return value;
  }

  // Removes all values for which `predicate` holds, and returns them.
  template <typename Predicate>
  std::vector<T> RemoveIf(Predicate predicate) {
    const locks::MutexLock lock(&mutex_);
    std::vector<T> removed;
    for (auto entry = values_.begin(); entry != values_.end();) {
      const auto current = entry++;
      if (!predicate(current->second)) continue;
      removed.push_back(std::move(current->second));
      free_.push_back(current->first);
      values_.erase(current);
    }
    return removed;
  }

  // Calls `visit` with every value.
  template <typename Visit>
  void ForEach(Visit visit) const {
    const locks::MutexLock lock(&mutex_);
    for (const auto& [handle, value] : values_) visit(value);
  }

  std::int64_t size() const {
    const locks::MutexLock lock(&mutex_);
    return static_cast<std::int64_t>(values_.size());
  }

 private:
  static constexpr std::uintptr_t kStep = 64;

  mutable locks::Mutex mutex_;
  absl::flat_hash_map<std::uintptr_t, T> values_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::uintptr_t> free_ ABSL_GUARDED_BY(mutex_);
  std::uintptr_t next_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_HANDLE_TABLE_H_
