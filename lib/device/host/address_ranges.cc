// The ends of the ranges by their begins. Sizes are compared with what is left of a range, so that
// no sum can overflow.
#include "lib/device/host/address_ranges.h"

#include <iterator>

namespace tidepool::host {
namespace {

std::uintptr_t ToNumber(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

void AddressRanges::Insert(const void* address, std::int64_t bytes) {
  ends_.emplace(ToNumber(address), ToNumber(address) + static_cast<std::uintptr_t>(bytes));
}

void AddressRanges::Erase(const void* address) { ends_.erase(ToNumber(address)); }

std::int64_t AddressRanges::BytesAt(const void* address) const {
  const auto found = ends_.find(ToNumber(address));
  return found == ends_.end() ? 0 : static_cast<std::int64_t>(found->second - found->first);
}

bool AddressRanges::Contain(const void* address, std::int64_t bytes) const {
  const auto range = Holding(ToNumber(address));
  return range != ends_.end() &&
         static_cast<std::uintptr_t>(bytes) <= range->second - ToNumber(address);
}

bool AddressRanges::Cover(const void* address, std::int64_t bytes) const {
  std::uintptr_t next = ToNumber(address);
  auto rest = static_cast<std::uintptr_t>(bytes);
  for (auto range = Holding(next); range != ends_.end() && range->first <= next; ++range) {
    if (rest <= range->second - next) return true;
    rest -= range->second - next;
    next = range->second;
  }
  return false;
}

bool AddressRanges::Overlap(const void* address, std::int64_t bytes) const {
  const std::uintptr_t begin = ToNumber(address);
  if (Holding(begin) != ends_.end()) return true;
  const auto above = ends_.upper_bound(begin);
  return above != ends_.end() && above->first - begin < static_cast<std::uintptr_t>(bytes);
}

AddressRanges::Ends::const_iterator AddressRanges::Holding(std::uintptr_t address) const {
  const auto above = ends_.upper_bound(address);
  if (above == ends_.begin()) return ends_.end();
  const auto range = std::prev(above);
  return address < range->second ? range : ends_.end();
}

}  // namespace tidepool::host
