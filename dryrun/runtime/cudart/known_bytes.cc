// SPDX-License-Identifier: Apache-2.0
#include "dryrun/runtime/cudart/known_bytes.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

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

bool KnownBytes::TakeRoom(std::int64_t bytes) {
  if (bytes > kSmallBytes && !IsHeld()) {
    if (taken_bytes_.fetch_add(bytes) + bytes > kRoomBytes) {
      taken_bytes_.fetch_sub(bytes);
      return false;
    }
  }
  Expect();
  return true;
}

bool KnownBytes::TakeAny() {
  if (!may_have_any_.load() || !may_have_any_.exchange(false)) return false;
  taken_bytes_.store(0);
  return true;
}

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

std::int64_t KnownBytes::Read(const char* from, char* to, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  std::int64_t known = 0;
  VisitLocked(Number(from), Number(from) + static_cast<std::uintptr_t>(bytes),
              [&](std::size_t offset, std::string_view part) {
                std::memcpy(to + offset, part.data(), part.size());
                known += static_cast<std::int64_t>(part.size());
              });
  return known;
}

std::int64_t KnownBytes::CountIn(const char* from, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  std::int64_t known = 0;
  VisitLocked(
      Number(from), Number(from) + static_cast<std::uintptr_t>(bytes),
      [&](std::size_t, std::string_view part) { known += static_cast<std::int64_t>(part.size()); });
  return known;
}

void KnownBytes::Copy(const char* from, const char* to, std::int64_t bytes) {
  const auto size = static_cast<std::uintptr_t>(bytes);
  const locks::MutexLock lock(&mutex_);
  std::vector<std::pair<std::size_t, std::string>> parts;  // by offset; the ranges may overlap
  VisitLocked(Number(from), Number(from) + size,
              [&](std::size_t offset, std::string_view part) { parts.emplace_back(offset, part); });
  ForgetLocked(Number(to), Number(to) + size);
  for (auto& [offset, part] : parts) ranges_.emplace(Number(to) + offset, std::move(part));
  if (!parts.empty()) may_have_any_.store(true);
}

template <typename Visit>
void KnownBytes::VisitLocked(std::uintptr_t begin, std::uintptr_t end, Visit visit) const {
  for (auto range = FirstOf(ranges_, begin); range != ranges_.end() && range->first < end;
       ++range) {
    const std::uintptr_t first = std::max(begin, range->first);
    const std::uintptr_t last = std::min(end, range->first + range->second.size());
    visit(first - begin,
          std::string_view(range->second).substr(first - range->first, last - first));
  }
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
