// Work that one thread does in order, and marks in it: what a stream and what an event are made of.
#ifndef TIDEPOOL_LIB_DEVICE_HOST_WORK_QUEUE_H_
#define TIDEPOOL_LIB_DEVICE_HOST_WORK_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"

namespace tidepool::host {

class WorkQueue;

// A place in a queue: all that was pushed before it. One of no queue stands for nothing.
class Mark {
 public:
  Mark() = default;
  Mark(std::shared_ptr<WorkQueue> queue, std::uint64_t pushed)
      : queue_(std::move(queue)), pushed_(pushed) {}

  bool IsIn(const WorkQueue& queue) const { return queue_.get() == &queue; }
  bool IsOver() const;
  void Wait() const;

 private:
  std::shared_ptr<WorkQueue> queue_;
  std::uint64_t pushed_ = 0;
};

// Thread-safe. Always owned by a std::shared_ptr, of which the thread has one.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  using Clock = std::chrono::steady_clock;
  // What is done in its turn. Told since when its turn is, which may be earlier than now, because
  // threads come late; says when it was over, which may be earlier as well.
  using Work = std::function<Clock::time_point(Clock::time_point)>;
  // Called on the thread as the last that it does, with the thread itself, which is to be joined.
  using OnEnd = std::function<void(std::thread)>;

  explicit WorkQueue(OnEnd on_end) : on_end_(std::move(on_end)) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // NotFound when the queue is closed, ResourceExhausted when there is no thread for it.
  absl::Status Push(Work work);
  // What was pushed is still done, nothing more is taken. Returns whether there is a thread, which
  // then ends.
  bool Close();
  // After all that was pushed so far.
  Mark End();

 private:
  friend class Mark;

  bool IsOver(std::uint64_t pushed);
  void Wait(std::uint64_t pushed);

  absl::Status StartThread();
  void Run();
  bool RunNext();

  const OnEnd on_end_;
  std::mutex mutex_;
  std::condition_variable was_pushed_;
  std::condition_variable was_done_;
  struct Pushed {
    Work work;
    Clock::time_point time;
  };
  std::deque<Pushed> work_;
  std::uint64_t pushed_ = 0;
  std::uint64_t done_ = 0;
  bool is_closed_ = false;
  std::thread thread_;
  Clock::time_point last_over_ = Clock::time_point::min();  // the thread's
};

}  // namespace tidepool::host

#endif  // TIDEPOOL_LIB_DEVICE_HOST_WORK_QUEUE_H_
