// SPDX-License-Identifier: Apache-2.0
// QueuedWork: the work that all streams of a device had when an object was made.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_QUEUED_WORK_H_
#define TIDEPOOL_LIB_MEMORY_POOL_QUEUED_WORK_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "lib/base/locks/mutex.h"
#include "lib/memory/device/owned.h"
#include "tidepool/device.h"

namespace tidepool::pool {

// Thread-safe. If the device fails to record the work, the object records it at a later call, with
// the work that was queued meanwhile.
class QueuedWork {
 public:
  explicit QueuedWork(Device& device);
  QueuedWork(const QueuedWork&) = delete;
  QueuedWork& operator=(const QueuedWork&) = delete;

  // Whether the work has finished, as far as the device says so.
  bool HasFinished();
  // Waits on the host until it has.
  absl::Status Await();

 private:
  absl::Status Record() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Device& device_;
  locks::Mutex mutex_;
  device::OwnedEvent event_ ABSL_GUARDED_BY(mutex_);
  bool is_recorded_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_QUEUED_WORK_H_
