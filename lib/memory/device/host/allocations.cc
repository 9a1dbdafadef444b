// SPDX-License-Identifier: Apache-2.0
// Gives every allocation a mapping of its own: it costs nothing until it is touched, and an access
// after it was freed faults.
#include "lib/memory/device/host/allocations.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/memory/device/host/reserved_addresses.h"

namespace tidepool::host {
namespace {

constexpr std::int64_t kUnit = std::int64_t{2} << 20;
constexpr std::int64_t kMostBytes = std::int64_t{32} << 40;  // a quarter of the host's addresses

}  // namespace

absl::StatusOr<std::unique_ptr<AddressArena>> AddressArena::Create(std::int64_t memory_bytes,
                                                                   AddressOrder order) {
  const std::int64_t bytes = 4 * RoundUp(std::min(memory_bytes, kMostBytes / 4), kUnit);
  void* const begin =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE, kWithoutMemory, -1, 0);
  if (begin == MAP_FAILED) return absl::ErrnoToStatus(errno, "the host has no addresses");
  return std::unique_ptr<AddressArena>(new AddressArena(static_cast<char*>(begin), bytes, order));
}

AddressArena::~AddressArena() { munmap(begin_, static_cast<std::size_t>(bytes_)); }

absl::StatusOr<void*> AddressArena::Take(std::int64_t bytes) {
  const std::int64_t rounded = bytes > bytes_ ? bytes : RoundUp(bytes, kUnit);
  const std::optional<std::int64_t> offset = free_.Take(rounded);
  if (!offset.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no free addresses for ", text::ExactSize(bytes)));
  }
  char* const address = begin_ + Mirrored(*offset, rounded);
  if (mprotect(address, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE) != 0) {
    free_.GiveBack(*offset, rounded);
    return absl::ErrnoToStatus(errno, "the host has no memory");
  }
  return address;
}

absl::Status AddressArena::GiveBack(void* address, std::int64_t bytes) {
  const std::int64_t rounded = RoundUp(bytes, kUnit);
  if (mmap(address, static_cast<std::size_t>(rounded), PROT_NONE, kWithoutMemory | MAP_FIXED, -1,
           0) == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, "the host keeps the memory");
  }
  free_.GiveBack(Mirrored(static_cast<char*>(address) - begin_, rounded), rounded);
  return absl::OkStatus();
}

Allocations::~Allocations() {
  if (arena_ != nullptr) return;
  ranges_.ForEach(
      [](void* address, std::int64_t bytes) { munmap(address, static_cast<std::size_t>(bytes)); });
}

absl::StatusOr<void*> Allocations::Map(std::int64_t bytes) {
  if (arena_ != nullptr) return arena_->Take(bytes);
  void* address = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return absl::ErrnoToStatus(errno, "the host has no memory");
  return address;
}

absl::Status Allocations::Unmap(void* address, std::int64_t bytes) {
  if (arena_ != nullptr) return arena_->GiveBack(address, bytes);
  if (munmap(address, static_cast<std::size_t>(bytes)) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "the host keeps the memory");
}

absl::StatusOr<void*> Allocations::Allocate(std::int64_t bytes) {
  const locks::MutexLock lock(&mutex_);
  absl::StatusOr<void*> address = Map(bytes);
  if (address.ok()) ranges_.Insert(*address, bytes);
  return address;
}

absl::StatusOr<std::int64_t> Allocations::Free(void* address) {
  const locks::MutexLock lock(&mutex_);
  const std::int64_t bytes = ranges_.BytesAt(address);
  if (bytes == 0) return absl::NotFoundError("nothing is allocated at the address");
  if (absl::Status status = Unmap(address, bytes); !status.ok()) return status;
  ranges_.Erase(address);
  return bytes;
}

bool Allocations::Contain(const void* address, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  return ranges_.Contain(address, bytes);
}

bool Allocations::Overlap(const void* address, std::int64_t bytes) const {
  const locks::MutexLock lock(&mutex_);
  return ranges_.Overlap(address, bytes);
}

void LockOnTouch(void* address, std::int64_t bytes) {
  static_cast<void>(mlock2(address, static_cast<std::size_t>(bytes), MLOCK_ONFAULT));
}

}  // namespace tidepool::host
