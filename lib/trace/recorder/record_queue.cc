// SPDX-License-Identifier: Apache-2.0
// Record queue: the synchronization of both sides. Every condition that a thread waits for changes
// under the mutex, except the count of added records within a chunk, for which no thread waits.
#include "lib/trace/recorder/record_queue.h"

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
  const std::uint64_t added = added_.load(std::memory_order_relaxed);
  const locks::MutexLock lock(&mutex_);
  wanted_ = added;
  work_.Signal();
  while (!is_stopped() && added + chunk_ - taken_ > records_.size()) progress_.Wait(&mutex_);
  if (is_stopped()) return false;
  limit_ = added + chunk_;
  return true;
}

void RecordQueue::AwaitWork(std::chrono::nanoseconds longest) {
  const locks::MutexLock lock(&mutex_);
  while (wanted_ <= taken_ && !is_stopped()) {
    if (work_.WaitFor(&mutex_, longest)) return;
  }
}

absl::Span<const Record> RecordQueue::Front(std::uint64_t end) const {
  const std::size_t begin = front_ % records_.size();
  const std::uint64_t count =
      std::min({end - front_, chunk_, std::uint64_t{records_.size() - begin}});
  return {records_.data() + begin, static_cast<std::size_t>(count)};
}

void RecordQueue::Take(std::size_t count) {
  front_ += count;
  const locks::MutexLock lock(&mutex_);
  taken_ = front_;
  progress_.SignalAll();
}

void RecordQueue::Finish() {
  const locks::MutexLock lock(&mutex_);
  is_finished_ = true;
  progress_.SignalAll();
}

void RecordQueue::AwaitTaken() {
  const locks::MutexLock lock(&mutex_);
  const std::uint64_t end = added();
  wanted_ = std::max(wanted_, end);
  work_.Signal();
  while (!is_finished_ && taken_ < end) progress_.Wait(&mutex_);
}

void RecordQueue::Stop() {
  const locks::MutexLock lock(&mutex_);
  is_stopped_.store(true, std::memory_order_relaxed);
  work_.Signal();
  progress_.SignalAll();
}

void RecordQueue::AwaitFinish() {
  const locks::MutexLock lock(&mutex_);
  while (!is_finished_) progress_.Wait(&mutex_);
}

}  // namespace tidepool::recorder
