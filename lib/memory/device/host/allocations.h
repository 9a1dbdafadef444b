// SPDX-License-Identifier: Apache-2.0
// Whole allocations: pages of the host, which it provides on first touch. Their addresses are the
// host's choice, or in an order that is known.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_ALLOCATIONS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_ALLOCATIONS_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/address_ranges.h"
#include "lib/memory/device/host/free_ranges.h"
#include "tidepool/host_device.h"

namespace tidepool::host {

// Addresses in an order that is known: a range of the host's addresses, divided from one end. Not
// thread-safe. The destructor frees all memory.
class AddressArena {
 public:
  // Reserves addresses for four times `memory_bytes`, since free addresses are scattered.
  // ResourceExhausted if the host lacks them.
  static absl::StatusOr<std::unique_ptr<AddressArena>> Create(std::int64_t memory_bytes,
                                                              AddressOrder order);
  ~AddressArena();
  AddressArena(const AddressArena&) = delete;
  AddressArena& operator=(const AddressArena&) = delete;

  // Returns memory at the first free addresses, which the host gives on first touch.
  absl::StatusOr<void*> Take(std::int64_t bytes);
  // Gives back memory that Take returned for `bytes`. An access to it faults from now on.
  absl::Status GiveBack(void* address, std::int64_t bytes);

 private:
  AddressArena(char* begin, std::int64_t bytes, AddressOrder order)
      : begin_(begin), bytes_(bytes), order_(order), free_(bytes) {}

  // Turns an offset from the first end into an address, and the other way round.
  std::int64_t Mirrored(std::int64_t offset, std::int64_t bytes) const {
    return order_ == AddressOrder::kFalling ? bytes_ - offset - bytes : offset;
  }

  char* const begin_;
  const std::int64_t bytes_;
  const AddressOrder order_;
  FreeRanges free_;  // offsets from the end at which the order begins
};

// Keeps pages in memory from the first touch on, if the limits of the process allow it. Memory that
// is not locked serves as well.
void LockOnTouch(void* address, std::int64_t bytes);

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
