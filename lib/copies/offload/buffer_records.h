// SPDX-License-Identifier: Apache-2.0
// The buffers of an offloader, their states, and the records of their copies. The mutex of
// OffloaderState guards them.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_RECORDS_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/copies/offload/buffer_memory.h"
#include "lib/memory/device/owned.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/device.h"

namespace tidepool::offload {

// A copy of a buffer in one direction. The buffer may be freed, or stay on the device, meanwhile:
// the copy exists until it is settled.
struct BufferCopy {
  std::int64_t sequence = 0;  // the order in which copies were queued
  BufferId buffer;
  std::string buffer_name;  // as in messages
  std::int64_t bytes = 0;
  bool is_out = false;
  std::weak_ptr<DeviceMemory> device;
  std::shared_ptr<HostMemory> host;
  // Copy out: the copy in after which it runs, until that copy is settled.
  std::shared_ptr<BufferCopy> predecessor;
  std::vector<Stream> waiting_streams;  // streams that were told to wait for the copy
  bool is_settled = false;              // its changes to buffer, memory and statistics are made
  // Copy in: whether Use gave the address to work that runs after the copy. If such a copy fails,
  // `kept_device` holds the memory until a caller has received the error: the work may still be
  // queued.
  bool has_given_address = false;
  std::shared_ptr<DeviceMemory> kept_device;

  // Raw copy: recorded after it on its stream, at once or, after an error, later.
  device::OwnedEvent end;
  bool is_recorded = false;

  // Compressed copy. The pool does not know the pipeline's streams, so `held` keeps the memory
  // until the copy has finished. The pipeline reports the end.
  bool is_compressed = false;
  std::shared_ptr<DeviceMemory> held;
  device::OwnedEvent start;             // copy in: after the work that the copy must wait for
  std::shared_ptr<std::latch> arrival;  // copy in: host functions of waiting streams wait for it
  bool has_reported_end = false;

  absl::Status result;  // valid after the end
};

using CopyPointer = std::shared_ptr<BufferCopy>;

struct Buffer {
  BufferId id;
  std::string name;
  std::int64_t bytes = 0;
  BufferState state = BufferState::kOnDevice;
  std::shared_ptr<DeviceMemory> device;  // null when it is out
  std::shared_ptr<HostMemory> host;      // when it is out or coming back
  CopyPointer copy;                      // when it is going out or coming back
  CopyPointer cancelled;                 // the last copy out that a prefetch cancelled
  CopyPointer failed;                    // the failed copy, until a caller has received its error
};

// Returns "buffer 'x'", or "buffer 7" for a buffer without a name.
std::string DescribeBuffer(const Buffer& buffer);
// Returns FailedPrecondition, "buffer 'x' is out, expected a buffer that is `expected`".
absl::Status WrongState(const Buffer& buffer, std::string_view expected);
// Returns the result of a copy that has ended, with the buffer's name.
absl::Status ResultOf(const BufferCopy& copy);
// Changes the state; no other function does.
void SetState(Buffer& buffer, BufferState to);

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

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_RECORDS_H_
