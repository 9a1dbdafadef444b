// Two sorted arrays: segments come and go seldom.
#include "lib/pool/address_map.h"

#include <algorithm>
#include <cassert>

namespace tidepool::pool {

void AddressMap::Add(const Range& offsets, char* address) {
  const Stretch added = {offsets.begin, static_cast<std::uint64_t>(offsets.bytes()), address};
  by_offset_.insert(std::ranges::upper_bound(by_offset_, added.begin, {}, &Stretch::begin), added);
  by_address_.insert(std::ranges::upper_bound(by_address_, address, {}, &Stretch::address), added);
  last_ = added;
}

void AddressMap::Remove(const Range& offsets) {
  const auto is_it = [&](const Stretch& stretch) { return stretch.begin == offsets.begin; };
  std::erase_if(by_offset_, is_it);
  std::erase_if(by_address_, is_it);
  last_ = {};
}

void AddressMap::FindOffset(std::int64_t offset) const {
  const auto after = std::ranges::upper_bound(by_offset_, offset, {}, &Stretch::begin);
  assert(after != by_offset_.begin());
  last_ = *(after - 1);
  assert(static_cast<std::uint64_t>(offset - last_.begin) < last_.bytes);
}

bool AddressMap::FindAddress(const void* address) const {
  const auto after = std::ranges::upper_bound(by_address_, address, {}, &Stretch::address);
  if (after == by_address_.begin() || Distance(address, *(after - 1)) >= (after - 1)->bytes) {
    return false;
  }
  last_ = *(after - 1);
  return true;
}

}  // namespace tidepool::pool
