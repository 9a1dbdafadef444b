// SPDX-License-Identifier: Apache-2.0
// The books of a device's virtual memory: reserved addresses, physical memory, and which memory is
// mapped at which address. They check each call before the backing of the device carries it out.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_VIRTUAL_MEMORY_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_VIRTUAL_MEMORY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/address_ranges.h"
#include "lib/memory/device/name_source.h"
#include "tidepool/device.h"

namespace tidepool::device {

// The part of a device that reserves, creates and maps. VirtualMemory calls it only with arguments
// that its books allow, one call at a time. A call that fails has changed nothing.
class VirtualBacking {
 public:
  VirtualBacking() = default;
  virtual ~VirtualBacking() = default;
  VirtualBacking(const VirtualBacking&) = delete;
  VirtualBacking& operator=(const VirtualBacking&) = delete;

  virtual absl::StatusOr<void*> Reserve(std::int64_t bytes) = 0;
  virtual absl::Status Release(void* address, std::int64_t bytes) = 0;
  // Creates physical memory. Returns a handle that only the backing interprets.
  virtual absl::StatusOr<std::uint64_t> Create(std::int64_t bytes) = 0;
  // Gives the handle up: the memory is not mapped again. Existing mappings stay.
  virtual absl::Status ReleaseHandle(std::uint64_t handle) = 0;
  // Takes note that released memory is mapped nowhere any more, so its bytes are free.
  virtual void Reclaim(std::uint64_t handle, std::int64_t bytes) = 0;
  virtual absl::Status Map(void* address, std::uint64_t handle, std::int64_t bytes) = 0;
  virtual absl::Status Unmap(void* address, std::uint64_t handle, std::int64_t bytes) = 0;
};

// The virtual memory functions of a Device, with the errors that device.h documents. Thread-safe.
// The destructor gives back everything that is left.
class VirtualMemory {
 public:
  VirtualMemory(std::int64_t granularity, std::unique_ptr<VirtualBacking> backing)
      : granularity_(granularity), backing_(std::move(backing)) {}
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  std::int64_t granularity() const { return granularity_; }

  absl::StatusOr<void*> ReserveAddresses(std::int64_t bytes);
  absl::Status ReleaseAddresses(void* address, std::int64_t bytes);
  absl::StatusOr<PhysicalMemory> CreatePhysical(std::int64_t bytes);
  absl::Status ReleasePhysical(PhysicalMemory memory);
  absl::Status Map(void* address, PhysicalMemory memory);
  absl::Status Unmap(void* address);

  // Returns whether every byte of the range is mapped.
  bool IsMapped(const void* address, std::int64_t bytes) const;
  // Returns whether some byte of the range is reserved.
  bool OverlapsReserved(const void* address, std::int64_t bytes) const;

 private:
  struct Physical {
    std::uint64_t handle;
    std::int64_t bytes;
    std::int64_t mappings = 0;
    bool is_released = false;
  };
  using PhysicalMap = absl::flat_hash_map<std::uint64_t, Physical>;

  absl::Status CheckBytes(std::int64_t bytes) const;
  // Drops the entry if the memory is released and mapped nowhere.
  void DropIfUnreachable(PhysicalMap::iterator physical) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::int64_t granularity_;
  mutable locks::Mutex mutex_;
  const std::unique_ptr<VirtualBacking> backing_ ABSL_PT_GUARDED_BY(mutex_);
  NameSource names_ ABSL_GUARDED_BY(mutex_);
  AddressRanges reserved_ ABSL_GUARDED_BY(mutex_);
  AddressRanges mapped_ ABSL_GUARDED_BY(mutex_);
  // By name.
  PhysicalMap physical_ ABSL_GUARDED_BY(mutex_);
  // Names of mapped memory, by address.
  absl::flat_hash_map<void*, std::uint64_t> physical_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_VIRTUAL_MEMORY_H_
