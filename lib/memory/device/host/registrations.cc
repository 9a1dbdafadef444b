// SPDX-License-Identifier: Apache-2.0
// Page locks do not count: a page that two registrations share is unlocked with the first of them.
// That is harmless, since memory that is not locked works as well on this device.
#include "lib/memory/device/host/registrations.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "lib/memory/device/host/allocations.h"

namespace tidepool::host {
namespace {

// Returns whether the host has memory at all of the addresses.
bool IsMapped(const void* address, std::int64_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t in_page = number % page;
  const std::uintptr_t length = in_page + static_cast<std::uintptr_t>(bytes);
  if (number - in_page > UINTPTR_MAX - length) return false;
  // With MS_ASYNC, msync writes nothing back; it only fails for addresses without memory.
  char* const begin = static_cast<char*>(const_cast<void*>(address)) - in_page;
  return msync(begin, length, MS_ASYNC) == 0;
}

}  // namespace

Registrations::~Registrations() {
  ranges_.ForEach([](void* address, std::int64_t bytes) {
    static_cast<void>(munlock(address, static_cast<std::size_t>(bytes)));
  });
}

absl::Status Registrations::Register(void* address, std::int64_t bytes) {
  if (bytes <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked for ", bytes, " bytes, expected at least one"));
  }
  if (!IsMapped(address, bytes)) {
    return absl::InvalidArgumentError(
        "some of the addresses have no memory, expected mapped memory");
  }
  const locks::MutexLock lock(&mutex_);
  if (ranges_.Overlap(address, bytes)) {
    return absl::InvalidArgumentError(
        "some of the memory is registered already: unregister it before");
  }
  ranges_.Insert(address, bytes);
  LockOnTouch(address, bytes);
  return absl::OkStatus();
}

absl::Status Registrations::Unregister(void* address) {
  const locks::MutexLock lock(&mutex_);
  const std::int64_t bytes = ranges_.BytesAt(address);
  if (bytes == 0) {
    return absl::NotFoundError("no registered range begins at the address");
  }
  static_cast<void>(munlock(address, static_cast<std::size_t>(bytes)));
  ranges_.Erase(address);
  return absl::OkStatus();
}

}  // namespace tidepool::host
