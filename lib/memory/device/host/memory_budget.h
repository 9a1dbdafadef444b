// SPDX-License-Identifier: Apache-2.0
// The memory of the device: how much it has, and how much of it is in use.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_MEMORY_BUDGET_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_MEMORY_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/locks/mutex.h"
#include "lib/base/text/sizes.h"

namespace tidepool::host {

// Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::int64_t total_bytes) : total_bytes_(total_bytes) {}

  std::int64_t total_bytes() const { return total_bytes_; }
  std::int64_t used_bytes() const {
    const locks::MutexLock lock(&mutex_);
    return used_bytes_;
  }

  // Takes `bytes` bytes. InvalidArgument unless positive, ResourceExhausted if fewer are left.
  absl::Status Take(std::int64_t bytes) {
    if (bytes <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("asked for ", bytes, " bytes, expected at least one"));
    }
    const locks::MutexLock lock(&mutex_);
    if (bytes > total_bytes_ - used_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("asked for ", text::ExactSize(bytes), ", but ", text::ExactSize(used_bytes_),
                       " of ", text::ExactSize(total_bytes_), " are in use"));
    }
    used_bytes_ += bytes;
    return absl::OkStatus();
  }

  void Return(std::int64_t bytes) {
    const locks::MutexLock lock(&mutex_);
    used_bytes_ -= bytes;
  }

 private:
  const std::int64_t total_bytes_;
  mutable locks::Mutex mutex_;
  std::int64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_MEMORY_BUDGET_H_
