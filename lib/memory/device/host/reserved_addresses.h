// SPDX-License-Identifier: Apache-2.0
// Addresses of the host without memory.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_RESERVED_ADDRESSES_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_RESERVED_ADDRESSES_H_

#include <sys/mman.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace tidepool::host {

// The flags of mmap that reserve addresses alone. The host sets no memory aside for them.
inline constexpr int kWithoutMemory = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Reserves addresses that fault, and that begin at a multiple of `alignment`.
absl::StatusOr<void*> TakeAddresses(std::uintptr_t bytes, std::uintptr_t alignment);

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_RESERVED_ADDRESSES_H_
