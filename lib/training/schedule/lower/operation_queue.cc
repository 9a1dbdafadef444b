// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/lower/operation_queue.h"

namespace tidepool::schedule {

OperationQueue::OperationQueue(Program& program)
    : program_(program),
      next_(program.streams.size()),
      passed_(program.streams.size() * program.streams.size()),
      tails_(program.streams.size()),
      is_past_barrier_(program.streams.size(), true) {}

void OperationQueue::Add(ProgramOperation operation) {
  const std::size_t stream = operation.stream;
  if (!is_past_barrier_[stream]) AwaitBarrier(stream);
  operation.first_wait = static_cast<std::uint32_t>(program_.waits.size());
  for (const std::uint32_t other : awaited_now_) AddWait(stream, other);
  awaited_now_.clear();
  operation.waits = static_cast<std::uint32_t>(program_.waits.size()) - operation.first_wait;
  program_.operations.push_back(operation);
  tails_[stream] = static_cast<std::uint32_t>(program_.operations.size());
}

void OperationQueue::Synchronize() {
  barrier_ = tails_;
  is_past_barrier_.assign(is_past_barrier_.size(), false);
}

void OperationQueue::AwaitBarrier(std::size_t stream) {
  is_past_barrier_[stream] = true;
  for (std::uint32_t other = 0; other < barrier_.size(); ++other) {
    if (barrier_[other] > 0) Await({barrier_[other] - 1, other}, Reason::kSynchronize);
  }
}

void OperationQueue::AddWait(std::size_t stream, std::uint32_t other) {
  const Wait wait = next_[other];
  next_[other] = {};
  std::uint32_t& passed = passed_[stream * tails_.size() + other];
  if (other == stream || wait.until <= passed) return;
  passed = wait.until;
  program_.waits.push_back({wait.until - 1, wait.reason});
}

}  // namespace tidepool::schedule
