// SPDX-License-Identifier: Apache-2.0
// Two sorted arrays: stretches come and go seldom, and every call looks them up.
#include "lib/memory/pool/address_map.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace tidepool::pool {
namespace {

std::uint64_t KeyOf(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

void AddressMap::Add(const Range& offsets, char* address) {
  last_ = {offsets.begin, static_cast<std::uint64_t>(offsets.bytes()), address};
  by_offset_.Add(static_cast<std::uint64_t>(offsets.begin), last_);
  by_address_.Add(KeyOf(address), last_);
}

void AddressMap::Remove(const Range& offsets) {
  const Stretch removed = by_offset_.At(static_cast<std::uint64_t>(offsets.begin));
  assert(removed.begin == offsets.begin);
  by_offset_.Remove(removed);
  by_address_.Remove(removed);
  last_ = {};
}

void AddressMap::FindOffset(std::int64_t offset) const {
  last_ = by_offset_.At(static_cast<std::uint64_t>(offset));
  assert(static_cast<std::uint64_t>(offset - last_.begin) < last_.bytes);
}

bool AddressMap::FindAddress(const void* address) const {
  if (by_address_.keys.empty()) return false;
  const Stretch& stretch = by_address_.At(KeyOf(address));
  if (Distance(address, stretch) >= stretch.bytes) return false;
  last_ = stretch;
  return true;
}

void AddressMap::Index::Add(std::uint64_t key, const Stretch& stretch) {
  const auto place = std::ranges::upper_bound(keys, key);
  stretches.insert(stretches.begin() + (place - keys.begin()), stretch);
  keys.insert(place, key);
}

void AddressMap::Index::Remove(const Stretch& stretch) {
  const auto place = std::ranges::find(stretches, stretch);
  keys.erase(keys.begin() + (place - stretches.begin()));
  stretches.erase(place);
}

// Has no branch that depends on the answer: it differs from call to call, and would be
// mispredicted.
const AddressMap::Stretch& AddressMap::Index::At(std::uint64_t key) const {
  std::size_t first = 0;
  for (std::size_t count = keys.size(); count > 1;) {
    const std::size_t half = count / 2;
    first += keys[first + half] <= key ? half : 0;
    count -= half;
  }
  return stretches[first];
}

}  // namespace tidepool::pool
