// SPDX-License-Identifier: Apache-2.0
// Keeps the ranges ordered by address. Sizes are compared with the rest of a range instead of
// adding them to an address, so no sum can overflow.
#include "lib/memory/device/address_ranges.h"

#include <iterator>

namespace tidepool::device {
namespace {

std::uintptr_t ToNumber(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

void AddressRanges::Insert(void* address, std::int64_t bytes) {
  const std::uintptr_t begin = ToNumber(address);
  ranges_.emplace(begin,
                  Entry{.address = address, .end = begin + static_cast<std::uintptr_t>(bytes)});
}

void AddressRanges::Erase(const void* address) { ranges_.erase(ToNumber(address)); }

std::int64_t AddressRanges::BytesAt(const void* address) const {
  const auto found = ranges_.find(ToNumber(address));
  return found == ranges_.end() ? 0 : static_cast<std::int64_t>(found->second.end - found->first);
}

bool AddressRanges::Contain(const void* address, std::int64_t bytes) const {
  const auto range = Holding(ToNumber(address));
  return range != ranges_.end() &&
         static_cast<std::uintptr_t>(bytes) <= range->second.end - ToNumber(address);
}

bool AddressRanges::Cover(const void* address, std::int64_t bytes) const {
  std::uintptr_t next = ToNumber(address);
  auto rest = static_cast<std::uintptr_t>(bytes);
  for (auto range = Holding(next); range != ranges_.end() && range->first <= next; ++range) {
    if (rest <= range->second.end - next) return true;
    rest -= range->second.end - next;
    next = range->second.end;
  }
  return false;
}

bool AddressRanges::Overlap(const void* address, std::int64_t bytes) const {
  const std::uintptr_t begin = ToNumber(address);
  if (Holding(begin) != ranges_.end()) return true;
  const auto above = ranges_.upper_bound(begin);
  return above != ranges_.end() && above->first - begin < static_cast<std::uintptr_t>(bytes);
}

AddressRanges::Ranges::const_iterator AddressRanges::Holding(std::uintptr_t address) const {
  const auto above = ranges_.upper_bound(address);
  if (above == ranges_.begin()) return ranges_.end();
  const auto range = std::prev(above);
  return address < range->second.end ? range : ranges_.end();
}

}  // namespace tidepool::device
