// SPDX-License-Identifier: Apache-2.0
// A queue of work that one thread runs in order, and positions in it: the parts of streams and
// events.
#ifndef TIDEPOOL_LIB_MEMORY_DEVICE_HOST_WORK_QUEUE_H_
#define TIDEPOOL_LIB_MEMORY_DEVICE_HOST_WORK_QUEUE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "lib/base/locks/mutex.h"

namespace tidepool::host {

class WorkQueue;

// A position in a queue: all work that was pushed before it. A position without a queue has been
// reached.
class QueuePosition {
 public:
  QueuePosition() = default;
  QueuePosition(std::shared_ptr<WorkQueue> queue, std::uint64_t pushed)
      : queue_(std::move(queue)), pushed_(pushed) {}

  bool IsIn(const WorkQueue& queue) const { return queue_.get() == &queue; }
  bool IsReached() const;
  void Wait() const;

 private:
  std::shared_ptr<WorkQueue> queue_;
  std::uint64_t pushed_ = 0;
};

// Thread-safe. Always owned by a std::shared_ptr; its thread holds a share.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  using Clock = std::chrono::steady_clock;
  // The work. Its argument is the time since which it was next in turn: earlier than now if the
  // thread is late. Returns the time at which it finished, which may be earlier than now too.
  using Work = std::function<Clock::time_point(Clock::time_point)>;
  // The last call of the thread, with the thread itself, which the callee has to get joined.
  using OnEnd = std::function<void(std::thread)>;

  explicit WorkQueue(OnEnd on_end) : on_end_(std::move(on_end)) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Appends work. NotFound if the queue is closed, ResourceExhausted if no thread can be started.
  absl::Status Push(Work work);
  // Refuses further work; work that was pushed still runs. Returns whether there is a thread, which
  // then ends.
  bool Close();
  // Returns the position after all work pushed so far.
  QueuePosition End();

 private:
  friend class QueuePosition;

  bool HaveFinished(std::uint64_t count);
  void Wait(std::uint64_t count);

  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  bool RunNext();

  const OnEnd on_end_;
  locks::Mutex mutex_;
  locks::CondVar was_pushed_;
  locks::CondVar was_finished_;
  struct Pushed {
    Work work;
    Clock::time_point time;
  };
  std::deque<Pushed> work_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t pushed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point last_finish_ = Clock::time_point::min();  // used by the queue's thread only
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_MEMORY_DEVICE_HOST_WORK_QUEUE_H_
