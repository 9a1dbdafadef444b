// SPDX-License-Identifier: Apache-2.0
// Memory without addresses: an anonymous file in memory, divided into ranges.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_MEMORY_FILE_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_MEMORY_FILE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/memory/device/host/free_ranges.h"

namespace tidepool::host {

// An allocator of ranges of the file, first fit. Not thread-safe.
class MemoryFile {
 public:
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Returns the offset of a free range of `bytes` bytes. The host provides its memory on first
  // touch.
  absl::StatusOr<std::int64_t> Allocate(std::int64_t bytes);
  // Frees the range and gives its memory back to the host.
  void Free(std::int64_t offset, std::int64_t bytes);

  // Maps the range of the file at `address`, in place of any earlier mapping.
  absl::Status MapAt(void* address, std::int64_t offset, std::int64_t bytes) const;

 private:
  explicit MemoryFile(int descriptor);

  absl::Status GrowTo(std::int64_t bytes);

  const int descriptor_;
  std::int64_t bytes_ = 0;
  FreeRanges free_;
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_MEMORY_FILE_H_
