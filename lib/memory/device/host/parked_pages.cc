// SPDX-License-Identifier: Apache-2.0
// Each range of the file has one place, so neighbours are one mapping of the system. A place stays
// mapped when its pages leave, so that no other mapping of the process gets its addresses.
#include "lib/memory/device/host/parked_pages.h"

#include <sys/mman.h>

#include <cstddef>

#include "lib/memory/device/host/reserved_addresses.h"

namespace tidepool::host {
namespace {

#ifdef MREMAP_DONTUNMAP
constexpr int kMove = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
#else
constexpr int kMove = MREMAP_MAYMOVE | MREMAP_FIXED | 4;  // Linux 5.13 has it for files in memory
#endif

// Moves the pages. An error of the system may leave the target without a mapping.
bool Move(void* from, void* to, std::size_t bytes) {
  return mremap(from, bytes, bytes, kMove, to) != MAP_FAILED;
}

}  // namespace

ParkedPages::~ParkedPages() {
  if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(bytes_));
}

bool ParkedPages::Park(void* address, std::int64_t offset, std::int64_t bytes) {
  if (bytes > bytes_ - offset || !Reserve()) return false;
  char* const place = base_ + offset;
  if (Move(address, place, static_cast<std::size_t>(bytes))) {
    parked_.insert(offset);
    return true;
  }
  parked_.erase(offset);
  // Without memory the call succeeds, or the place stays as it was.
  static_cast<void>(
      mmap(place, static_cast<std::size_t>(bytes), PROT_NONE, kWithoutMemory | MAP_FIXED, -1, 0));
  return false;
}

bool ParkedPages::MoveTo(void* address, std::int64_t offset, std::int64_t bytes) {
  return parked_.erase(offset) > 0 &&
         Move(base_ + offset, address, static_cast<std::size_t>(bytes));
}

bool ParkedPages::Reserve() {
  if (base_ != nullptr) return true;
  if (has_none_) return false;
  const absl::StatusOr<void*> base =
      TakeAddresses(static_cast<std::uintptr_t>(bytes_), static_cast<std::uintptr_t>(alignment_));
  has_none_ = !base.ok();
  if (base.ok()) base_ = static_cast<char*>(*base);
  return base.ok();
}

}  // namespace tidepool::host
