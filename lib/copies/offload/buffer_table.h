// SPDX-License-Identifier: Apache-2.0
// The buffers of an offloader by number.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_TABLE_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "lib/copies/offload/buffers.h"

namespace tidepool::offload {

// The mutex of OffloaderState guards it. Addresses of buffers stay until they are removed.
class BufferTable {
 public:
  BufferId Add(std::string_view name, std::int64_t bytes, std::shared_ptr<DeviceMemory> memory);
  void Remove(BufferId id) { buffers_.erase(id.id); }
  std::int64_t size() const { return static_cast<std::int64_t>(buffers_.size()); }

  // Returns the buffer; NotFound.
  absl::StatusOr<Buffer*> Find(BufferId id) const;
  // Returns the buffer, or null.
  Buffer* FindOrNull(BufferId id) const;
  // Returns the buffer with the earliest failed copy, or null. O(buffers).
  Buffer* FindFirstFailed() const;
  // Returns the buffers with device memory, the `sorted` largest first. O(buffers).
  std::vector<const Buffer*> OnDevice(std::size_t sorted) const;
  // Returns the bytes of device memory kept for buffers' failed copies in. O(buffers).
  std::int64_t KeptBytes() const;

 private:
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Buffer>> buffers_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_TABLE_H_
