// SPDX-License-Identifier: Apache-2.0
// Record queue: a ring buffer from the recording threads to the writer thread. Adding a record
// takes no lock; both sides synchronize under a mutex once a chunk, an eighth of the ring.
#ifndef TIDEPOOL_LIB_TRACE_RECORDER_RECORD_QUEUE_H_
#define TIDEPOOL_LIB_TRACE_RECORDER_RECORD_QUEUE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lib/base/locks/mutex.h"
#include "lib/trace/recorder/record.h"

namespace tidepool::recorder {

// Queue for one adding thread at a time and one taking thread. Any thread may call Stop, AwaitTaken
// and AwaitFinish.
class RecordQueue {
 public:
  // Allocates as many records as fit in `bytes`, but at least 8.
  explicit RecordQueue(std::int64_t bytes);

  // Adds a record; waits while the queue is full. Adds nothing once the queue is stopped.
  void Add(const Record& record) ABSL_LOCKS_EXCLUDED(mutex_) {
    const std::uint64_t added = added_.load(std::memory_order_relaxed);
    if (added == limit_ && !NextChunk()) return;
    records_[next_] = record;
    if (++next_ == records_.size()) next_ = 0;
    added_.store(added + 1, std::memory_order_release);
  }
  bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }

  // Returns how many records were ever added. All of them may be taken.
  std::uint64_t added() const { return added_.load(std::memory_order_acquire); }
  // Waits until a chunk is full, a thread called AwaitTaken, the queue is stopped, or `longest` has
  // passed.
  void AwaitWork(std::chrono::nanoseconds longest) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the next records to take, before the `end`th ever added: at most a chunk, and empty
  // when all are taken.
  absl::Span<const Record> Front(std::uint64_t end) const;
  // Frees the space of the first `count` records.
  void Take(std::size_t count) ABSL_LOCKS_EXCLUDED(mutex_);
  // Declares that no more records will be taken, so that no thread waits for that.
  void Finish() ABSL_LOCKS_EXCLUDED(mutex_);

  // Wakes the taker for all records added so far, and waits until they are taken or the taker has
  // finished.
  void AwaitTaken() ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  void AwaitFinish() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool NextChunk() ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<Record> records_;
  std::uint64_t chunk_;

  // Used by the adding thread.
  std::size_t next_ = 0;     // index of the next record
  std::uint64_t limit_ = 0;  // count of records up to which there is space
  std::atomic<std::uint64_t> added_{0};
  std::atomic<bool> is_stopped_{false};

  // Used by the taking thread: as taken_, without the lock.
  std::uint64_t front_ = 0;

  locks::Mutex mutex_;
  locks::CondVar work_;
  locks::CondVar progress_;
  // Count of records that should be taken at once.
  std::uint64_t wanted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_TRACE_RECORDER_RECORD_QUEUE_H_
