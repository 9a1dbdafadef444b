// SPDX-License-Identifier: Apache-2.0
// The stand-in's knowledge of addresses.
#ifndef TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_MAP_H_
#define TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dryrun/runtime/cudart/stand_in_device.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::cudart_host {

enum class MemoryKind : std::uint8_t {
  kPageable,  // host memory that the runtime does not know
  kDevice,
  kManaged,
  kPinned,
  kRegistered,
  kMapped,   // physical memory at reserved addresses
  kInvalid,  // several kinds, or not accessible
};

// Physical memory of a device. It is released with its last handle and mapping. That of another
// process, which counts it, has no memory here.
struct Physical {
  Physical(std::shared_ptr<StandInDevice> its_device, PhysicalMemory its_memory,
           std::int64_t its_bytes, bool serves_network)
      : device(std::move(its_device)),
        memory(its_memory),
        bytes(its_bytes),
        is_for_network(serves_network) {}
  Physical(std::shared_ptr<StandInDevice> its_device, std::int64_t its_bytes)
      : device(std::move(its_device)), memory(), bytes(its_bytes), is_of_a_peer(true) {}
  ~Physical() {
    if (!is_of_a_peer) device->host().ReleasePhysical(memory).IgnoreError();
  }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  const std::shared_ptr<StandInDevice> device;
  const PhysicalMemory memory;
  const std::int64_t bytes;
  const bool is_for_network = false;
  const bool is_of_a_peer = false;
};

// A range of addresses of one kind.
struct Region {
  char* address = nullptr;
  std::int64_t bytes = 0;
  MemoryKind kind = MemoryKind::kPageable;
  std::shared_ptr<StandInDevice> device = nullptr;
  unsigned flags = 0;                            // of pinned and registered memory
  std::shared_ptr<Physical> physical = nullptr;  // of mapped memory
  std::uint64_t access = 0;  // of mapped memory: a bit for each device with access
};

// All regions of the process, which do not overlap. Thread-safe.
class MemoryMap {
 public:
  // Adds a region. Returns false and changes nothing if it overlaps another region.
  bool Insert(Region region);
  // Removes and returns the region that begins at the address, if it is of one of the kinds.
  std::optional<Region> Remove(const void* address, std::initializer_list<MemoryKind> kinds);
  // Returns the region that holds the byte.
  std::optional<Region> Find(const void* address) const;
  // Returns the kind and the device of `bytes` bytes from the address on. The result need not be a
  // region of the map: mapped memory may lie in several regions.
  Region Classify(const void* address, std::int64_t bytes) const;
  // Returns the regions that cover the range exactly, or none if there are gaps or overhangs.
  std::vector<Region> Cover(const void* address, std::int64_t bytes) const;
  bool Overlaps(const void* address, std::int64_t bytes) const;
  void SetAccess(const void* address, std::uint64_t given, std::uint64_t taken);

  // Removes and returns the regions for which the predicate holds.
  template <typename Predicate>
  std::vector<Region> RemoveIf(Predicate predicate) {
    const locks::MutexLock lock(&mutex_);
    std::vector<Region> removed;
    for (auto entry = regions_.begin(); entry != regions_.end();) {
      const auto current = entry++;
      if (!predicate(current->second)) continue;
      locked_bytes_ -= LockedBytes(current->second);
      removed.push_back(std::move(current->second));
      regions_.erase(current);
    }
    return removed;
  }
  std::int64_t CountIf(bool (*predicate)(const Region&)) const;
  // Returns the bytes of pinned and registered memory of the host.
  std::int64_t locked_bytes() const { return locked_bytes_.load(); }

 private:
  using Regions = std::map<std::uintptr_t, Region>;

  static std::int64_t LockedBytes(const Region& region) {
    const bool is_locked =
        region.kind == MemoryKind::kPinned || region.kind == MemoryKind::kRegistered;
    return is_locked ? region.bytes : 0;
  }
  Regions::const_iterator Holding(std::uintptr_t address) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool OverlapsLocked(std::uintptr_t begin, std::int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable locks::Mutex mutex_;
  Regions regions_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::int64_t> locked_bytes_ = 0;  // changes under mutex_
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_RUNTIME_CUDART_MEMORY_MAP_H_
