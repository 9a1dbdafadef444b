// SPDX-License-Identifier: Apache-2.0
#include "stand_in/cudart/known_bytes.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace tidepool::cudart_host {
namespace {

std::uintptr_t Number(const char* address) { return reinterpret_cast<std::uintptr_t>(address); }

// Returns the first range that ends after `begin`.
template <typename Ranges>
auto FirstOf(Ranges& ranges, std::uintptr_t begin) {
  auto range = ranges.upper_bound(begin);
  if (range == ranges.begin()) return range;
  const auto before = std::prev(range);
  return before->first + before->second.size() > begin ? before : range;
}

}  // namespace

void KnownBytes::Write(const char* to, std::string_view bytes) {
  const locks::MutexLock lock(&mutex_);
  ForgetLocked(Number(to), Number(to) + bytes.size());
  ranges_.emplace(Number(to), bytes);
  may_have_any_.store(true);
}

void KnownBytes::Forget(const char* to, std::int64_t bytes) {
  const locks::MutexLock lock(&mutex_);
  ForgetLocked(Number(to), Number(to) + static_cast<std::uintptr_t>(bytes));
}

void KnownBytes::ForgetAll() {
  const locks::MutexLock lock(&mutex_);
  ranges_.clear();
}

bool KnownBytes::Read(const char* from, char* to, std::int64_t bytes) const {
  std::memset(to, 0, static_cast<std::size_t>(bytes));
  const std::uintptr_t begin = Number(from);
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(bytes);
  const locks::MutexLock lock(&mutex_);
  bool is_any_known = false;
  for (auto range = FirstOf(ranges_, begin); range != ranges_.end() && range->first < end;
       ++range) {
    const std::uintptr_t first = std::max(begin, range->first);
    const std::uintptr_t last = std::min(end, range->first + range->second.size());
    std::memcpy(to + (first - begin), range->second.data() + (first - range->first), last - first);
    is_any_known = true;
  }
  return is_any_known;
}

void KnownBytes::ForgetLocked(std::uintptr_t begin, std::uintptr_t end) {
  auto range = FirstOf(ranges_, begin);
  while (range != ranges_.end() && range->first < end) {
    const std::uintptr_t first = range->first;
    std::string bytes = std::move(range->second);
    range = ranges_.erase(range);
    if (first + bytes.size() > end) ranges_.emplace(end, bytes.substr(end - first));
    if (first < begin) ranges_.emplace(first, bytes.substr(0, begin - first));
  }
}

}  // namespace tidepool::cudart_host
