// Records on their way from those who record to the thread that writes: a ring. To add one takes no
// lock; both sides meet under a mutex once a chunk, the eighth part of the ring.
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

// One thread adds at a time, and one takes. Stop and Hurry may be called by any.
class RecordQueue {
 public:
  // Holds at least 8 records, and no more than fit in `bytes` if that is enough for 8.
  explicit RecordQueue(std::int64_t bytes);

  // Waits as long as the queue is full. Once the queue is stopped nothing is added.
  void Add(const Record& record) {
    const std::uint64_t added = added_.load(std::memory_order_relaxed);
    if (added == limit_ && !NextChunk()) return;
    records_[next_] = record;
    if (++next_ == records_.size()) next_ = 0;
    added_.store(added + 1, std::memory_order_release);
  }
  bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }

  // How many were ever added, and may be taken.
  std::uint64_t added() const { return added_.load(std::memory_order_acquire); }
  // Waits until a chunk is full, somebody is in a hurry, the queue is stopped or the time is up.
  void AwaitWork(std::chrono::nanoseconds longest);
  // The next records to take, up to the `end`th ever added: a chunk at most, none when all are
  // taken.
  absl::Span<const Record> Front(std::uint64_t end) const;
  // Gives back the room of the first `count`.
  void Take(std::size_t count);
  // Nothing more will be taken: nobody waits for that any longer.
  void Finish();

  // Lets the taker take what was added so far, and waits until it has or has finished.
  void Hurry();
  void Stop();
  void AwaitFinish();

 private:
  bool NextChunk();

  std::vector<Record> records_;
  std::uint64_t chunk_;

  // Of the thread that adds.
  std::size_t next_ = 0;     // where the next record goes
  std::uint64_t limit_ = 0;  // until when it need not ask for room
  std::atomic<std::uint64_t> added_{0};
  std::atomic<bool> is_stopped_{false};

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable progress_;
  std::uint64_t wanted_ = 0;  // up to there records should be taken at once
  std::uint64_t taken_ = 0;
  bool is_finished_ = false;
};

}  // namespace tidepool::recorder

#endif  // TIDEPOOL_LIB_RECORDER_RECORD_QUEUE_H_
