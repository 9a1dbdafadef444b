// Memory without addresses: a file that is only in memory, from which stretches are given out.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_MEMORY_FILE_H_
#define TIDEPOOL_LIB_DEVICE_HOST_MEMORY_FILE_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tidepool::host {

// Not thread-safe.
class MemoryFile {
 public:
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Returns the offset of a free stretch. It takes memory from the host when it is touched.
  absl::StatusOr<std::int64_t> Allocate(std::int64_t bytes);
  // Gives the memory of the stretch back to the host.
  void Free(std::int64_t offset, std::int64_t bytes);

  // Lets the addresses from `address` on, whatever they were before, be the stretch.
  absl::Status MapAt(void* address, std::int64_t offset, std::int64_t bytes) const;

 private:
  explicit MemoryFile(int descriptor);

  absl::Status GrowTo(std::int64_t bytes);

  const int descriptor_;
  std::int64_t bytes_ = 0;
  std::map<std::int64_t, std::int64_t> free_;  // sizes by offset, no two adjacent
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_MEMORY_FILE_H_
