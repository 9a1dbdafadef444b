// The two kinds of memory that a buffer has: on the device and on the host. Each goes back to where
// it came from with the last who holds it.
#ifndef TIDEPOOL_LIB_OFFLOAD_BUFFER_MEMORY_H_
#define TIDEPOOL_LIB_OFFLOAD_BUFFER_MEMORY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tidepool/compress/compression_pipeline.h"
#include "tidepool/device.h"
#include "tidepool/host/pinned_pool.h"
#include "tidepool/pool.h"

namespace tidepool::offload {

// What all buffers of an offloader have, guarded by its mutex, as is all memory below.
struct Holdings {
  std::int64_t device_bytes = 0;
  std::int64_t leaving_bytes = 0;  // of these, that come back to the pool when copies are over
  std::int64_t host_bytes = 0;
  std::int64_t peak_host_bytes = 0;
};

// Where memory of the device comes from. Copies of raw buffers run on the two streams.
struct DeviceSource {
  Device& device;
  Pool& pool;
  Holdings& holdings;
  Stream out;
  Stream in;
};

// Memory of a pool, taken and given back on its *home* stream.
class DeviceMemory {
 public:
  DeviceMemory(const DeviceSource& source, void* address, std::int64_t bytes, Stream home);
  // Gives it back behind the work of all who used it, and copies of raw buffers under way.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* address() const { return address_; }
  Stream home() const { return home_; }
  // Work queued on the stream uses it from here on.
  absl::Status AddUser(Stream stream);

  // Whether it goes back when copies are over.
  bool is_leaving() const { return is_leaving_; }
  void SetLeaving(bool is_leaving);

  // Raw copies that may be under way, and that the home stream does not come after. Of those out
  // the last stands for all: they are on one stream.
  void BeginOut(std::int64_t sequence) { last_out_ = sequence; }
  void EndOut(std::int64_t sequence) {
    if (last_out_ == sequence) last_out_ = 0;
  }
  void BeginIn() { is_coming_ = true; }
  void EndIn() { is_coming_ = false; }

 private:
  absl::Status FreeAtHome();
  absl::Status FreeWithoutHome();

  const DeviceSource source_;
  void* const address_;
  const std::int64_t bytes_;
  const Stream home_;
  std::vector<Stream> users_;  // beside it
  bool is_leaving_ = false;
  std::int64_t last_out_ = 0;  // none
  bool is_coming_ = false;
};

// A pinned buffer, or what a pipeline keeps.
class HostMemory {
 public:
  HostMemory(Holdings& holdings, PinnedPool& pool, void* address, std::int64_t bytes);
  HostMemory(Holdings& holdings, std::shared_ptr<const StoredBuffer> stored);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Null when it is stored.
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

#endif  // TIDEPOOL_LIB_OFFLOAD_BUFFER_MEMORY_H_
