// Addresses without memory, memory without addresses, and which is mapped to which: the books of a
// device, which know what may be done, over what can do it.
#ifndef TIDEPOOL_LIB_DEVICE_VIRTUAL_MEMORY_H_
#define TIDEPOOL_LIB_DEVICE_VIRTUAL_MEMORY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/address_ranges.h"
#include "lib/device/names.h"
#include "tidepool/device.h"

namespace tidepool::device {

// What does it. It is asked for nothing that the books do not allow, one call at a time, and a call
// that fails has done nothing.
class VirtualBacking {
 public:
  VirtualBacking() = default;
  virtual ~VirtualBacking() = default;
  VirtualBacking(const VirtualBacking&) = delete;
  VirtualBacking& operator=(const VirtualBacking&) = delete;

  virtual absl::StatusOr<void*> Reserve(std::int64_t bytes) = 0;
  virtual absl::Status Release(void* address, std::int64_t bytes) = 0;
  // Returns a handle of the backing's own.
  virtual absl::StatusOr<std::uint64_t> Create(std::int64_t bytes) = 0;
  // The memory is mapped no more from here on, but stays where it is.
  virtual absl::Status GiveUp(std::uint64_t handle) = 0;
  // It was given up and is mapped nowhere.
  virtual void Forget(std::uint64_t handle, std::int64_t bytes) = 0;
  virtual absl::Status Map(void* address, std::uint64_t handle, std::int64_t bytes) = 0;
  virtual absl::Status Unmap(void* address, std::int64_t bytes) = 0;
};

// Thread-safe. The functions of a Device, as it promises them; in the end everything is given back.
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

  // Whether there is memory at all of the addresses.
  bool IsMapped(const void* address, std::int64_t bytes) const;
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
  // Forgets it once it is neither known nor mapped.
  void DropIfUnreachable(PhysicalMap::iterator physical);

  const std::int64_t granularity_;
  mutable std::mutex mutex_;
  std::unique_ptr<VirtualBacking> backing_;
  Names names_;
  AddressRanges reserved_;
  AddressRanges mapped_;
  PhysicalMap physical_;                                         // by name
  absl::flat_hash_map<const void*, std::uint64_t> physical_at_;  // names by address
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_DEVICE_VIRTUAL_MEMORY_H_
