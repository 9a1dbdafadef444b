// SPDX-License-Identifier: Apache-2.0
// Adds operations and their waits to a program. Not thread-safe.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_OPERATION_QUEUE_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_OPERATION_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/training/schedule/lower/stream_ends.h"
#include "tidepool/training/program.h"

namespace tidepool::schedule {

class OperationQueue {
 public:
  using Reason = ProgramWait::Reason;

  // The program has its streams. It outlives the queue.
  explicit OperationQueue(Program& program);

  // Returns the operation that Add adds next, on `stream`.
  StreamEnd Next(std::size_t stream) const {
    return {static_cast<std::uint32_t>(program_.operations.size()),
            static_cast<std::uint32_t>(stream)};
  }

  // Makes the next operation wait for `end`. Of a stream only the latest operation counts. A step
  // kSynchronize is the cause of a wait before all others.
  void Await(StreamEnd end, Reason reason) {
    Wait& wait = next_[end.stream];
    const bool is_same = wait.until == end.operation + 1;
    if (is_same && reason == Reason::kSynchronize) wait.reason = reason;
    if (wait.until > end.operation) return;
    if (wait.until == 0) awaited_now_.push_back(end.stream);
    wait = {end.operation + 1, reason};
  }
  void Await(const StreamEnds& ends, Reason reason) {
    for (const StreamEnd& end : ends) Await(end, reason);
  }

  // Adds an operation with the waits since the last one, without those that its stream has passed.
  void Add(ProgramOperation operation);

  // Whether an operation is the last one so far of a compute stream.
  bool IsLastTask(const StreamEnd& end) const {
    return program_.streams[end.stream].kind == ProgramStream::Kind::kCompute &&
           tails_[end.stream] == end.operation + 1;
  }

  // Makes each stream wait for all operations so far.
  void Synchronize();

 private:
  struct Wait {
    std::uint32_t until = 0;  // number of the operation, plus 1; 0: no wait
    Reason reason = Reason::kData;
  };

  void AwaitBarrier(std::size_t stream);
  void AddWait(std::size_t stream, std::uint32_t other);

  Program& program_;
  std::vector<Wait> next_;  // by stream
  std::vector<std::uint32_t> awaited_now_;
  std::vector<std::uint32_t> passed_;  // by stream and other stream: operations passed
  std::vector<std::uint32_t> tails_;   // by stream: operations queued, as `until`
  std::vector<std::uint32_t> barrier_;
  std::vector<bool> is_past_barrier_;  // by stream
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_LOWER_OPERATION_QUEUE_H_
