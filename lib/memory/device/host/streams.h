// SPDX-License-Identifier: Apache-2.0
// The streams of a device, by name.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_STREAMS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_STREAMS_H_

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/host/work_queue.h"
#include "lib/memory/device/name_source.h"
#include "tidepool/device.h"

namespace tidepool::host {

// Thread-safe. Functions answer NotFound for an unknown stream.
class Streams {
 public:
  Streams() = default;
  // Waits until all work is done.
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  Stream Create();
  absl::Status Destroy(Stream stream);
  // Returns the queue of a stream that takes work.
  absl::StatusOr<std::shared_ptr<WorkQueue>> Find(Stream stream) const;
  // Returns the position after all work that the stream was ever given. Takes destroyed streams
  // too.
  absl::StatusOr<QueuePosition> EndOf(Stream stream) const;
  // Returns the ends of all streams with work left.
  std::vector<QueuePosition> EndsOfAll() const;

 private:
  struct Entry {
    std::shared_ptr<WorkQueue> queue;
    bool is_destroyed = false;
  };

  void Remove(std::uint64_t name, std::thread thread);

  mutable locks::Mutex mutex_;
  locks::CondVar was_removed_;
  device::NameSource names_ ABSL_GUARDED_BY(mutex_);
  // Streams that take work, and destroyed streams with work left.
  absl::flat_hash_map<std::uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::thread last_ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_STREAMS_H_
