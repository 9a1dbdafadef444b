// Record queue: a ring buffer from the recording threads to the writer thread. Adding a record
// takes no lock; both sides synchronize under a mutex once a chunk, an eighth of the ring.
#ifndef TIDEPOOL_LIB_RECORDER_RECORD_QUEUE_H_
#define TIDEPOOL_LIB_RECORDER_RECORD_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "lib/recorder/record.h"

namespace tidepool::recorder {

// Queue for one adding thread at a time and one taking thread. Any thread may call Stop and Hurry.
class RecordQueue {
 public:
  // Allocates as many records as fit in `bytes`, but at least 8.
  explicit RecordQueue(std::int64_t bytes);

  // Adds a record; waits while the queue is full. Adds nothing once the queue is stopped.
  void Add(const Record& record) {
    const std::uint64_t added = added_.load(std::memory_order_relaxed);
    if (added == limit_ && !NextChunk()) return;
    records_[next_] = record;
    if (++next_ == records_.size()) next_ = 0;
    added_.store(added + 1, std::memory_order_release);
  }
  bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }

  // Returns how many records were ever added. All of them may be taken.
  std::uint64_t added() const { return added_.load(std::memory_order_acquire); }
  // Waits until a chunk is full, a thread called Hurry, the queue is stopped, or `longest` has
  // passed.
  void AwaitWork(std::chrono::nanoseconds longest);
  // Returns the next records to take, before the `end`th ever added: at most a chunk, and empty
  // when all are taken.
  absl::Span<const Record> Front(std::uint64_t end) const;
  // Frees the space of the first `count` records.
  void Take(std::size_t count);
  // Declares that no more records will be taken, so that no thread waits for that.
  void Finish();

  // Wakes the taker for all records added so far, and waits until they are taken or the taker has
  // finished.
  void Hurry();
  void Stop();
  void AwaitFinish();

 private:
  bool NextChunk();

  std::vector<Record> records_;
  std::uint64_t chunk_;

  // Used by the adding thread.
  std::size_t next_ = 0;     // index of the next record
  std::uint64_t limit_ = 0;  // count of records up to which there is space
  std::atomic<std::uint64_t> added_{0};
  std::atomic<bool> is_stopped_{false};

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable progress_;
  std::uint64_t wanted_ = 0;  // count of records that should be taken at once
  std::uint64_t taken_ = 0;
  bool is_finished_ = false;
};

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_RECORDER_RECORD_QUEUE_H_
