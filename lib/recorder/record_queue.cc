// Record queue: the synchronization of both sides. Every condition that a thread waits for changes
// under the mutex, except the count of added records within a chunk, for which no thread waits.
#include "lib/recorder/record_queue.h"

#include <algorithm>

namespace tidepool::recorder {

namespace {
constexpr std::uint64_t kChunks = 8;
}  // namespace

RecordQueue::RecordQueue(std::int64_t bytes)
    : chunk_(std::max<std::uint64_t>(static_cast<std::uint64_t>(bytes) / sizeof(Record) / kChunks,
                                     1)) {
  records_.resize(chunk_ * kChunks);
}

// Called when a chunk is full: wakes the taker and waits until another chunk is free.
bool RecordQueue::NextChunk() {
  std::unique_lock lock(mutex_);
  const std::uint64_t added = added_.load(std::memory_order_relaxed);
  wanted_ = added;
  work_.notify_one();
  progress_.wait(lock, [&] { return is_stopped() || added + chunk_ - taken_ <= records_.size(); });
  if (is_stopped()) return false;
  limit_ = added + chunk_;
  return true;
}

void RecordQueue::AwaitWork(std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  work_.wait_for(lock, longest, [&] { return wanted_ > taken_ || is_stopped(); });
}

absl::Span<const Record> RecordQueue::Front(std::uint64_t end) const {
  const std::size_t begin = taken_ % records_.size();
  const std::uint64_t count =
      std::min({end - taken_, chunk_, std::uint64_t{records_.size() - begin}});
  return {records_.data() + begin, static_cast<std::size_t>(count)};
}

void RecordQueue::Take(std::size_t count) {
  const std::lock_guard lock(mutex_);
  taken_ += count;
  progress_.notify_all();
}

void RecordQueue::Finish() {
  const std::lock_guard lock(mutex_);
  is_finished_ = true;
  progress_.notify_all();
}

void RecordQueue::Hurry() {
  std::unique_lock lock(mutex_);
  const std::uint64_t end = added();
  wanted_ = std::max(wanted_, end);
  work_.notify_one();
  progress_.wait(lock, [&] { return is_finished_ || taken_ >= end; });
}

void RecordQueue::Stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_.store(true, std::memory_order_relaxed);
  work_.notify_one();
  progress_.notify_all();
}

void RecordQueue::AwaitFinish() {
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] { return is_finished_; });
}

}  // namespace tidepool::recorder
