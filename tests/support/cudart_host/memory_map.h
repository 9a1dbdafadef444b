// What the stand-in knows about addresses.
#ifndef TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_MEMORY_MAP_H_
#define TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_MEMORY_MAP_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/cudart_host/stand_in_device.h"

namespace tidepool::cudart_host {

enum class MemoryKind : std::uint8_t {
  kPageable,  // of the host, and unknown
  kDevice,
  kManaged,
  kPinned,
  kRegistered,
  kMapped,   // physical memory at reserved addresses
  kInvalid,  // not all of one kind, or not accessible
};

// Physical memory of a device. It goes when nobody has it: no handle and no mapping.
struct Physical {
  Physical(std::shared_ptr<StandInDevice> its_device, PhysicalMemory its_memory,
           std::int64_t its_bytes)
      : device(std::move(its_device)), memory(its_memory), bytes(its_bytes) {}
  ~Physical() { device->host().ReleasePhysical(memory).IgnoreError(); }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  const std::shared_ptr<StandInDevice> device;
  const PhysicalMemory memory;
  const std::int64_t bytes;
};

struct Region {
  char* address = nullptr;
  std::int64_t bytes = 0;
  MemoryKind kind = MemoryKind::kPageable;
  std::shared_ptr<StandInDevice> device = nullptr;
  unsigned flags = 0;                            // of pinned and registered memory
  std::shared_ptr<Physical> physical = nullptr;  // of mapped memory
  std::uint64_t access = 0;  // of mapped memory: a bit for each device that may use it
};

// Thread-safe. Regions do not overlap.
class MemoryMap {
 public:
  // False, with nothing done, when the region overlaps another.
  bool Insert(Region region);
  // Only if there is one that begins at the address and is of one of the kinds.
  std::optional<Region> Remove(const void* address, std::initializer_list<MemoryKind> kinds);
  // The one that holds the byte.
  std::optional<Region> Find(const void* address) const;
  // What `bytes` bytes from the address on are. A region of the kind, with its device, that need
  // not be one of the map: mapped memory may lie in several.
  Region Classify(const void* address, std::int64_t bytes) const;
  // The regions that make up the range without gap or rest; empty when they do not.
  std::vector<Region> Cover(const void* address, std::int64_t bytes) const;
  bool Overlaps(const void* address, std::int64_t bytes) const;
  void SetAccess(const void* address, std::uint64_t given, std::uint64_t taken);

  // Without what the predicate holds for.
  template <typename Predicate>
  std::vector<Region> RemoveIf(Predicate predicate) {
    const std::lock_guard lock(mutex_);
    std::vector<Region> removed;
    for (auto entry = regions_.begin(); entry != regions_.end();) {
      const auto current = entry++;
      if (!predicate(current->second)) continue;
      removed.push_back(std::move(current->second));
      regions_.erase(current);
    }
    return removed;
  }
  std::int64_t CountIf(bool (*predicate)(const Region&)) const;

 private:
  using Regions = std::map<std::uintptr_t, Region>;

  Regions::const_iterator Holding(std::uintptr_t address) const;
  bool OverlapsLocked(std::uintptr_t begin, std::int64_t bytes) const;

  mutable std::mutex mutex_;
  Regions regions_;
};

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_TESTS_SUPPORT_CUDART_HOST_MEMORY_MAP_H_
