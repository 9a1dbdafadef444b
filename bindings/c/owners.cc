// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/owners.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool::c_api {
namespace {

constexpr std::size_t kMostOwners = 1024;
constexpr std::size_t kMostName = 255;
// The size of the structure in the first version, and a size that no version will have.
constexpr std::size_t kFirstOwnerSize = 7 * sizeof(std::size_t);
constexpr std::size_t kMostOwnerSize = 4096;

}  // namespace

absl::StatusOr<std::size_t> Owners::Add(std::string_view name) {
  if (name.empty() || name.size() > kMostName) {
    return absl::InvalidArgumentError(absl::StrCat("the name of an owner has ", name.size(),
                                                   " bytes, expected 1 to ", kMostName));
  }
  const locks::MutexLock lock(&mutex_);
  const auto found = std::ranges::find(owners_, name, &Owner::name);
  const auto number = static_cast<std::size_t>(found - owners_.begin()) + 1;
  if (found != owners_.end()) return number;
  if (owners_.size() == kMostOwners) {
    return absl::FailedPreconditionError(
        absl::StrCat("the pool has ", kMostOwners, " owners, which is the limit; '",
                     absl::CHexEscape(std::string(name)), "' would be one more"));
  }
  owners_.push_back({std::string(name)});
  owners_.back().figures.name = owners_.back().name.c_str();
  return number;
}

absl::Status Owners::Check(std::size_t owner) const {
  const locks::MutexLock lock(&mutex_);
  return CheckLocked(owner);
}

absl::Status Owners::CheckLocked(std::size_t owner) const {
  if (owner >= 1 && owner <= owners_.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "no owner ", owner, ", expected a number of tidepool_add_owner, of which there are ",
      owners_.size()));
}

void Owners::Allocated(const void* address, Owned owned) {
  const locks::MutexLock lock(&mutex_);
  Count(address, owned);
  ++owners_[owned.owner - 1].figures.allocations;
}

void Owners::Count(const void* address, Owned owned) {
  allocations_.insert_or_assign(address, owned);
  live_.store(allocations_.size(), std::memory_order_relaxed);
  tidepool_owner_statistics& figures = owners_[owned.owner - 1].figures;
  ++figures.live_count;
  figures.live_bytes += owned.bytes;
  figures.peak_live_bytes = std::max(figures.peak_live_bytes, figures.live_bytes);
}

std::optional<Owners::Owned> Owners::Take(const void* address) {
  const locks::MutexLock lock(&mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return std::nullopt;
  const Owned owned = found->second;
  allocations_.erase(found);
  live_.store(allocations_.size(), std::memory_order_relaxed);
  tidepool_owner_statistics& figures = owners_[owned.owner - 1].figures;
  --figures.live_count;
  figures.live_bytes -= owned.bytes;
  ++figures.frees;
  return owned;
}

void Owners::PutBack(const void* address, Owned owned) {
  const locks::MutexLock lock(&mutex_);
  Count(address, owned);
  --owners_[owned.owner - 1].figures.frees;
}

absl::Status Owners::FillStatistics(std::size_t owner,
                                    tidepool_owner_statistics& statistics) const {
  const std::size_t size = statistics.struct_size;
  if (size < kFirstOwnerSize || size > kMostOwnerSize) {
    return absl::InvalidArgumentError(absl::StrCat("struct_size is ", size,
                                                   ", expected sizeof(tidepool_owner_statistics), ",
                                                   sizeof statistics));
  }
  const locks::MutexLock lock(&mutex_);
  if (absl::Status status = CheckLocked(owner); !status.ok()) return status;
  tidepool_owner_statistics figures = owners_[owner - 1].figures;
  figures.struct_size = size;
  const std::size_t known = std::min(size, sizeof figures);
  auto* const bytes = reinterpret_cast<char*>(&statistics);
  std::memcpy(bytes, &figures, known);
  std::memset(bytes + known, 0, size - known);
  return absl::OkStatus();
}

void Owners::ResetPeaks() {
  const locks::MutexLock lock(&mutex_);
  for (Owner& owner : owners_) owner.figures.peak_live_bytes = owner.figures.live_bytes;
}

}  // namespace tidepool::c_api
