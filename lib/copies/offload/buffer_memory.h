// SPDX-License-Identifier: Apache-2.0
// Memory of a buffer on the device and on the host. The last owner's destructor gives it back.
//
// The mutex of OffloaderState guards all objects here.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_MEMORY_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/device.h"
#include "tidepool/pinned_pool.h"
#include "tidepool/pool.h"

namespace tidepool::offload {

// Sums over all buffers of an offloader.
struct Holdings {
  std::int64_t device_bytes = 0;
  std::int64_t leaving_bytes = 0;  // the part that goes back to the pool after copies in flight
  std::int64_t host_bytes = 0;
  std::int64_t peak_host_bytes = 0;
};

// Origin of device memory. Raw copies run on the two streams.
struct DeviceSource {
  Device& device;
  Pool& pool;
  Holdings& holdings;
  Stream out;
  Stream in;
};

// Memory of a pool, allocated and freed on its *home* stream.
class DeviceMemory {
 public:
  DeviceMemory(const DeviceSource& source, void* address, std::int64_t bytes, Stream home);
  // Frees the memory, ordered after the work of all streams that used it and raw copies in flight.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* address() const { return address_; }
  Stream home() const { return home_; }
  // Lets work queued on the stream from now on use the memory.
  absl::Status AddUser(Stream stream);

  // Whether it goes back to the pool after copies in flight.
  bool is_leaving() const { return is_leaving_; }
  void SetLeaving(bool is_leaving);

  // A raw copy is unordered from its beginning until it has ended or the home stream waits for it:
  // a free at home must then mind its stream. The last copy out stands for all copies out, because
  // they run on one stream.
  void NoteUnorderedOut(std::int64_t sequence) { last_out_ = sequence; }
  void NoteOrderedOut(std::int64_t sequence) {
    if (last_out_ == sequence) last_out_ = 0;
  }
  void NoteUnorderedIn() { is_coming_ = true; }
  void NoteOrderedIn() { is_coming_ = false; }

 private:
  absl::Status FreeAtHome();
  absl::Status FreeWithoutHome();

  const DeviceSource source_;
  void* const address_;
  const std::int64_t bytes_;
  const Stream home_;
  std::vector<Stream> users_;  // except the home stream
  bool is_leaving_ = false;
  std::int64_t last_out_ = 0;  // the last unordered copy out; 0: none
  bool is_coming_ = false;     // whether there is an unordered copy in
};

// A pinned buffer, or the compressed bytes that a pipeline stores.
class HostMemory {
 public:
  HostMemory(Holdings& holdings, PinnedPool& pool, void* address, std::int64_t bytes);
  HostMemory(Holdings& holdings, std::shared_ptr<const StoredBuffer> stored);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Null for compressed bytes.
  void* address() const { return address_; }
  const std::shared_ptr<const StoredBuffer>& stored() const { return stored_; }

 private:
  void Count();

  Holdings& holdings_;
  PinnedPool* const pool_ = nullptr;
  void* const address_ = nullptr;
  const std::shared_ptr<const StoredBuffer> stored_;
  const std::int64_t bytes_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFER_MEMORY_H_
