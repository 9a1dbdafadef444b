// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses that do not overlap, and queries about the bytes in them. No address is
// dereferenced.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_ADDRESS_RANGES_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_ADDRESS_RANGES_H_

#include <cstdint>
#include <map>

namespace tidepool::device {

// Sizes are positive. Inserted ranges do not overlap and lie within the address space. Queries take
// any range, even a range that runs past the end of the address space.
class AddressRanges {
 public:
  void Insert(void* address, std::int64_t bytes);
  void Erase(const void* address);

  // Returns the size of the range that begins at `address`, or 0 if there is no such range.
  std::int64_t BytesAt(const void* address) const;
  // Returns whether a single range holds all of the bytes.
  bool Contain(const void* address, std::int64_t bytes) const;
  // Returns whether every byte lies in some range.
  bool Cover(const void* address, std::int64_t bytes) const;
  // Returns whether some byte lies in some range.
  bool Overlap(const void* address, std::int64_t bytes) const;

  template <typename Function>
  void ForEach(Function function) const {
    for (const auto& [begin, range] : ranges_) {
      function(range.address, static_cast<std::int64_t>(range.end - begin));
    }
  }

 private:
  struct Entry {
    void* address;
    std::uintptr_t end;
  };
  using Ranges = std::map<std::uintptr_t, Entry>;

  // Returns the range that holds the byte at `address`, or end().
  Ranges::const_iterator Holding(std::uintptr_t address) const;

  Ranges ranges_;  // by their first address
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_ADDRESS_RANGES_H_
