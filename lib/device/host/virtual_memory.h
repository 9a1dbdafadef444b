// Addresses without memory, memory without addresses, and which is mapped to which.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_VIRTUAL_MEMORY_H_
#define TIDEPOOL_LIB_DEVICE_HOST_VIRTUAL_MEMORY_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/host/address_ranges.h"
#include "lib/device/host/memory_budget.h"
#include "lib/device/host/memory_file.h"
#include "lib/device/names.h"
#include "tidepool/device.h"

namespace tidepool::host {

// Thread-safe. The functions of a Device, as it promises them; in the end everything is given back.
class VirtualMemory {
 public:
  // The budget outlives it.
  static absl::StatusOr<std::unique_ptr<VirtualMemory>> Create(std::int64_t granularity,
                                                               MemoryBudget* budget);
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
    std::int64_t offset;  // in the file
    std::int64_t bytes;
    std::int64_t mappings = 0;
    bool is_released = false;
  };
  using PhysicalMap = absl::flat_hash_map<std::uint64_t, Physical>;

  VirtualMemory(std::int64_t granularity, MemoryBudget* budget, std::unique_ptr<MemoryFile> file);

  absl::Status CheckBytes(std::int64_t bytes) const;
  // Its memory goes back to the device if nobody can reach it any more.
  void DropIfUnreachable(PhysicalMap::iterator physical);

  const std::int64_t granularity_;
  MemoryBudget& budget_;
  mutable std::mutex mutex_;
  internal::Names names_;
  std::unique_ptr<MemoryFile> file_;
  AddressRanges reserved_;
  AddressRanges mapped_;
  PhysicalMap physical_;
  absl::flat_hash_map<const void*, std::uint64_t> physical_at_;  // by the address of a mapping
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_VIRTUAL_MEMORY_H_
