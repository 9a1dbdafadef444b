// SPDX-License-Identifier: Apache-2.0
// Whole allocations: pages of the host, which it provides on first touch.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_ALLOCATIONS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_ALLOCATIONS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/address_ranges.h"
#include "lib/memory/device/host/address_arena.h"

namespace tidepool::host {

// The whole allocations of one kind. Thread-safe. The destructor frees the allocations that are
// left.
class Allocations {
 public:
  // Takes addresses from the arena, or where the host maps memory without one.
  explicit Allocations(std::unique_ptr<AddressArena> arena = nullptr) : arena_(std::move(arena)) {}
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  // Allocates `bytes` bytes, more than 0, at the beginning of a page.
  absl::StatusOr<void*> Allocate(std::int64_t bytes);
  // Frees an allocation and returns its size as Allocate got it. NotFound if none begins at
  // `address`.
  absl::StatusOr<std::int64_t> Free(void* address);

  bool Contain(const void* address, std::int64_t bytes) const;
  bool Overlap(const void* address, std::int64_t bytes) const;

 private:
  absl::StatusOr<void*> Map(std::int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Unmap(void* address, std::int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable locks::Mutex mutex_;
  const std::unique_ptr<AddressArena> arena_ ABSL_PT_GUARDED_BY(mutex_);
  device::AddressRanges ranges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_ALLOCATIONS_H_
