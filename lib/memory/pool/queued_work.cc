// SPDX-License-Identifier: Apache-2.0
// The event is of all streams, so it needs no stream that still exists.
#include "lib/memory/pool/queued_work.h"

namespace tidepool::pool {

QueuedWork::QueuedWork(Device& device) : device_(device) {
  const locks::MutexLock lock(&mutex_);
  Record().IgnoreError();
}

absl::Status QueuedWork::Record() {
  if (is_recorded_) return absl::OkStatus();
  absl::Status status = event_.Ensure(device_, EventKind::kWaited);
  if (status.ok()) status = device_.RecordAll(event_.get());
  is_recorded_ = status.ok();
  return status;
}

bool QueuedWork::HasFinished() {
  const locks::MutexLock lock(&mutex_);
  if (!has_finished_ && Record().ok()) {
    const absl::StatusOr<bool> answer = device_.QueryEvent(event_.get());
    has_finished_ = answer.ok() && *answer;
  }
  return has_finished_;
}

absl::Status QueuedWork::Await() {
  Event event;
  {
    const locks::MutexLock lock(&mutex_);
    if (has_finished_) return absl::OkStatus();
    if (absl::Status status = Record(); !status.ok()) return status;
    event = event_.get();
  }
  absl::Status status = device_.SynchronizeEvent(event);
  if (!status.ok()) return status;
  const locks::MutexLock lock(&mutex_);
  has_finished_ = true;
  return status;
}

}  // namespace tidepool::pool
