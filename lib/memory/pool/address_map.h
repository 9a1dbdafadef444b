// SPDX-License-Identifier: Apache-2.0
// AddressMap: the addresses of a pool's offsets.
//
// Addresses are in a few stretches, and within a stretch the distance between address and offset is
// constant. Virtual memory is one stretch, and so is each segment.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_ADDRESS_MAP_H_
#define TIDEPOOL_LIB_MEMORY_POOL_ADDRESS_MAP_H_

#include <cstdint>
#include <vector>

#include "lib/memory/pool/range.h"

namespace tidepool::pool {

// Stretches do not overlap. Not thread-safe, not even for queries: each keeps its last answer.
class AddressMap {
 public:
  void Add(const Range& offsets, char* address);
  void Remove(const Range& offsets);

  // Returns the address of an offset that is in a stretch. O(log stretches), and O(1) in the
  // stretch of the last query.
  char* AddressOf(std::int64_t offset) const {
    if (static_cast<std::uint64_t>(offset - last_.begin) >= last_.bytes) [[unlikely]]
      FindOffset(offset);
    return last_.address + (offset - last_.begin);
  }
  // Returns -1 for an address in no stretch. As fast as AddressOf.
  std::int64_t OffsetOf(const void* address) const {
    if (Distance(address, last_) >= last_.bytes && !FindAddress(address)) [[unlikely]]
      return -1;
    return last_.begin + static_cast<std::int64_t>(Distance(address, last_));
  }

 private:
  struct Stretch {
    std::int64_t begin = 0;
    std::uint64_t bytes = 0;
    char* address = nullptr;

    friend bool operator==(const Stretch& a, const Stretch& b) = default;
  };

  // Returns the distance from the beginning of a stretch; more than any size for addresses before
  // it.
  static std::uint64_t Distance(const void* address, const Stretch& stretch) {
    return reinterpret_cast<std::uintptr_t>(address) -
           reinterpret_cast<std::uintptr_t>(stretch.address);
  }
  // Make the stretch of an offset or an address the last one.
  [[gnu::noinline]] void FindOffset(std::int64_t offset) const;
  [[gnu::noinline]] bool FindAddress(const void* address) const;

  // The stretches in the order of their first offset or address, which is the key.
  struct Index {
    std::vector<std::uint64_t> keys;
    std::vector<Stretch> stretches;

    void Add(std::uint64_t key, const Stretch& stretch);
    void Remove(const Stretch& stretch);
    // Returns the last stretch that begins at `key` or before, or else the first. Not for an empty
    // index.
    const Stretch& At(std::uint64_t key) const;
  };

  Index by_offset_;
  Index by_address_;
  mutable Stretch last_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_ADDRESS_MAP_H_
