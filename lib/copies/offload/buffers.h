// SPDX-License-Identifier: Apache-2.0
// The records of an offloader's buffers and of their copies. The mutex of OffloaderState guards
// them.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFERS_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFERS_H_

#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_BUFFERS_H_
