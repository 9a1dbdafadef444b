// SPDX-License-Identifier: Apache-2.0
// The events of a device, by name, and the recorded position of each.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_EVENTS_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_EVENTS_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/host/work_queue.h"
#include "lib/memory/device/name_source.h"
#include "tidepool/device.h"

namespace tidepool::host {

// The time at which a position was reached. Written before the position is reached.
struct ReachedTime {
  WorkQueue::Clock::time_point time;
};

// Thread-safe. All functions answer NotFound for an unknown event.
class Events {
 public:
  Events();
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  Event Create(EventKind kind);
  absl::Status Destroy(Event event);
  absl::StatusOr<EventKind> KindOf(Event event) const;
  // `reached`: null for a position without a time.
  absl::Status Set(Event event, QueuePosition position,
                   std::shared_ptr<const ReachedTime> reached = nullptr);
  absl::StatusOr<QueuePosition> Get(Event event) const;
  // Returns the same, also for an event of another host device.
  absl::StatusOr<QueuePosition> GetOfAny(Event event) const;
  // Returns the time at which the position was reached. FailedPrecondition if it was not, or has no
  // time.
  absl::StatusOr<WorkQueue::Clock::time_point> TimeOf(Event event) const;

 private:
  struct State {
    EventKind kind = EventKind::kOrder;
    QueuePosition position;
    std::shared_ptr<const ReachedTime> reached;
  };

  absl::StatusOr<State> Find(Event event) const;

  mutable locks::Mutex mutex_;
  device::NameSource names_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint64_t, State> states_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_EVENTS_H_
