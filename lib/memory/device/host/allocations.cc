// SPDX-License-Identifier: Apache-2.0
// Gives every allocation a mapping of its own: it costs nothing until it is touched, and an access
// after it was freed faults.
#include "lib/memory/device/host/allocations.h"

#include <sys/mman.h>

#include <cerrno>

#include "absl/status/status.h"

namespace tidepool::host {

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

}  // namespace tidepool::host
