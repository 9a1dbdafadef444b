// SPDX-License-Identifier: Apache-2.0
// The pages of memory that is mapped nowhere for the moment.
//
// Memory that goes from one address to another would lose its pages on the way: the system looks at
// each when it is unmapped, and the next owner faults in each again. Parked pages stay mapped at
// addresses without another use, and move to the next owner as whole tables.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_PARKED_PAGES_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_PARKED_PAGES_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"

namespace tidepool::host {

// Not thread-safe. Ranges of the file are named by their offsets. Where the system cannot move
// pages, all functions return false and have changed nothing.
class ParkedPages {
 public:
  // Has room for offsets below `bytes`, a multiple of the alignment.
  ParkedPages(std::int64_t bytes, std::int64_t alignment) : bytes_(bytes), alignment_(alignment) {}
  ~ParkedPages();
  ParkedPages(const ParkedPages&) = delete;
  ParkedPages& operator=(const ParkedPages&) = delete;

  // Takes the pages of a range of the file from the address at which it is mapped. It stays mapped
  // there, without pages.
  bool Park(void* address, std::int64_t offset, std::int64_t bytes);
  // Maps a range with its parked pages at an address, in place of any earlier mapping.
  bool MoveTo(void* address, std::int64_t offset, std::int64_t bytes);
  // Forgets a range that was given back to the file, and that no page has any more.
  void Forget(std::int64_t offset) { parked_.erase(offset); }

 private:
  bool Reserve();

  const std::int64_t bytes_;
  const std::int64_t alignment_;
  char* base_ =
      nullptr;  // of the addresses, a multiple of the alignment; null before the first use
  bool has_none_ = false;  // the host has no addresses for it
  absl::flat_hash_set<std::int64_t> parked_;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_PARKED_PAGES_H_
