// Ranges of addresses that do not overlap, and questions about what lies in them. Nothing is
// dereferenced.
#ifndef TIDEPOOL_LIB_DEVICE_ADDRESS_RANGES_H_
#define TIDEPOOL_LIB_DEVICE_ADDRESS_RANGES_H_

#include <cstdint>
#include <map>

namespace tidepool::device {

// Sizes are positive. The range that is asked about may be any, even one that runs over the end of
// the address space; ranges that are inserted do not.
class AddressRanges {
 public:
  void Insert(void* address, std::int64_t bytes);
  void Erase(const void* address);

  // The size of the range that begins at `address`, 0 if none does.
  std::int64_t BytesAt(const void* address) const;
  // Whether one range holds all of it.
  bool Contain(const void* address, std::int64_t bytes) const;
  // Whether every byte of it is in some range.
  bool Cover(const void* address, std::int64_t bytes) const;
  // Whether some byte of it is in some range.
  bool Overlap(const void* address, std::int64_t bytes) const;

  template <typename Function>
  void ForEach(Function function) const {
    for (const auto& [begin, range] : ranges_) {
      function(range.address, static_cast<std::int64_t>(range.end - begin));
    }
  }

 private:
  struct Range {
    void* address;
    std::uintptr_t end;
  };
  using Ranges = std::map<std::uintptr_t, Range>;

  // The range that holds the byte at `address`, or the end.
  Ranges::const_iterator Holding(std::uintptr_t address) const;

  Ranges ranges_;  // by address
};

}  // namespace tidepool::device

#endif  // TIDEPOOL_LIB_DEVICE_ADDRESS_RANGES_H_
