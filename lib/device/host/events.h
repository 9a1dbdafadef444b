// SPDX-License-Identifier: Apache-2.0
// The events of a device, by name, and the recorded position of each.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_EVENTS_H_
#define TIDEPOOL_LIB_DEVICE_HOST_EVENTS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/host/work_queue.h"
#include "lib/device/name_source.h"
#include "lib/locks/mutex.h"
#include "tidepool/device.h"

namespace tidepool::host {

// Thread-safe. All functions answer NotFound for an unknown event.
class Events {
 public:
  Events();
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  Event Create();
  absl::Status Destroy(Event event);
  absl::Status Set(Event event, QueuePosition position);
  absl::StatusOr<QueuePosition> Get(Event event) const;
  // Returns the same, also for an event of another host device.
  absl::StatusOr<QueuePosition> GetOfAny(Event event) const;

 private:
  mutable locks::Mutex mutex_;
  device::NameSource names_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint64_t, QueuePosition> positions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_EVENTS_H_
