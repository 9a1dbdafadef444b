// SPDX-License-Identifier: Apache-2.0
// Order is two counters: pushed work and finished work. A position is a count of pushed work, and
// is reached when as much has finished, so positions cost the queue nothing. Waiting for a position
// cannot deadlock: all work before it was pushed earlier.
#include "lib/memory/device/host/work_queue.h"

#include <sys/prctl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/locks/thread.h"

namespace tidepool::host {

bool QueuePosition::IsReached() const { return queue_ == nullptr || queue_->HaveFinished(pushed_); }

void QueuePosition::Wait() const {
  if (queue_ != nullptr) queue_->Wait(pushed_);
}

absl::Status WorkQueue::Push(Work work) {
  const locks::MutexLock lock(&mutex_);
  if (is_closed_) return absl::NotFoundError("the stream was destroyed");
  if (!thread_.joinable()) {
    if (absl::Status status = StartThread(); !status.ok()) return status;
  }
  work_.push_back({std::move(work), Clock::now()});
  ++pushed_;
  was_pushed_.Signal();
  return absl::OkStatus();
}

bool WorkQueue::Close() {
  const locks::MutexLock lock(&mutex_);
  is_closed_ = true;
  was_pushed_.Signal();
  return thread_.joinable();
}

QueuePosition WorkQueue::End() {
  const locks::MutexLock lock(&mutex_);
  return {shared_from_this(), pushed_};
}

bool WorkQueue::HaveFinished(std::uint64_t count) {
  const locks::MutexLock lock(&mutex_);
  return finished_ >= count;
}

void WorkQueue::Wait(std::uint64_t count) {
  const locks::MutexLock lock(&mutex_);
  while (finished_ < count) was_finished_.Wait(&mutex_);
}

absl::Status WorkQueue::StartThread() {
  absl::StatusOr<std::thread> thread =
      locks::StartThread([self = shared_from_this()] { self->Run(); });
  if (!thread.ok()) {
    return absl::Status(thread.status().code(),
                        absl::StrCat("no thread for the stream (", thread.status().message(), ")"));
  }
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

void WorkQueue::Run() {
  // The system would add 50 microseconds to each wait; simulated copies wait for a few
  // microseconds.
  prctl(PR_SET_TIMERSLACK, 1);
  while (RunNext()) {
  }
  std::thread self;
  {
    const locks::MutexLock lock(&mutex_);
    self = std::move(thread_);
  }
  on_end_(std::move(self));
}

bool WorkQueue::RunNext() {
  Pushed next;
  {
    const locks::MutexLock lock(&mutex_);
    while (work_.empty() && !is_closed_) was_pushed_.Wait(&mutex_);
    if (work_.empty()) return false;
    next = std::move(work_.front());
    work_.pop_front();
  }
  last_finish_ = next.work(std::max(next.time, last_finish_));
  // A thread that sees the work finished may rely on its captures being destroyed.
  next.work = nullptr;
  const locks::MutexLock lock(&mutex_);
  ++finished_;
  was_finished_.SignalAll();
  return true;
}

}  // namespace tidepool::host
