// Order is two counters: pushed work and finished work. A position is a count of pushed work, and
// is reached when as much has finished, so positions cost the queue nothing. Waiting for a position
// cannot deadlock: all work before it was pushed earlier.
#include "lib/device/host/work_queue.h"

#include <sys/prctl.h>

#include <algorithm>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tidepool::host {

bool Mark::IsOver() const { return queue_ == nullptr || queue_->IsOver(pushed_); }

void Mark::Wait() const {
  if (queue_ != nullptr) queue_->Wait(pushed_);
}

absl::Status WorkQueue::Push(Work work) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return absl::NotFoundError("the stream was destroyed");
  if (!thread_.joinable()) {
    if (absl::Status status = StartThread(); !status.ok()) return status;
  }
  work_.push_back({std::move(work), Clock::now()});
  ++pushed_;
  was_pushed_.notify_one();
  return absl::OkStatus();
}

bool WorkQueue::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  was_pushed_.notify_one();
  return thread_.joinable();
}

Mark WorkQueue::End() {
  const std::lock_guard lock(mutex_);
  return {shared_from_this(), pushed_};
}

bool WorkQueue::IsOver(std::uint64_t pushed) {
  const std::lock_guard lock(mutex_);
  return done_ >= pushed;
}

void WorkQueue::Wait(std::uint64_t pushed) {
  std::unique_lock lock(mutex_);
  was_done_.wait(lock, [&] { return done_ >= pushed; });
}

absl::Status WorkQueue::StartThread() {
  try {
    thread_ = std::thread([self = shared_from_this()] { self->Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread for the stream (", error.what(), ")"));
  }
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
    const std::lock_guard lock(mutex_);
    self = std::move(thread_);
  }
  on_end_(std::move(self));
}

bool WorkQueue::RunNext() {
  Pushed next;
  {
    std::unique_lock lock(mutex_);
    was_pushed_.wait(lock, [this] { return !work_.empty() || is_closed_; });
    if (work_.empty()) return false;
    next = std::move(work_.front());
    work_.pop_front();
  }
  last_over_ = next.work(std::max(next.time, last_over_));
  // A thread that sees the work finished may rely on its captures being destroyed.
  next.work = nullptr;
  const std::lock_guard lock(mutex_);
  ++done_;
  was_done_.notify_all();
  return true;
}

}  // namespace tidepool::host
