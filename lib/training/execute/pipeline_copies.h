// SPDX-License-Identifier: Apache-2.0
// Copies that the host compresses: a CompressionPipeline carries them out, and the streams of the
// program wait for them as for their own copies.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_PIPELINE_COPIES_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_PIPELINE_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/device.h"

namespace tidepool::execute {

// Not thread-safe. `device` and `pipeline` outlive it. No transfer runs when it is destroyed.
//
// A transfer begins after the work of its stream, and a host function on the stream waits for its
// end. A CUDA device may run the host functions of all streams on one thread. They all end: when
// one of them runs, all that its transfer waits for has happened.
class PipelineCopies {
 public:
  // An error of a transfer, which the pipeline has told.
  struct Failure {
    std::size_t step = 0;
    absl::Status status;
  };

  // `pipeline` may be null: no copy is compressed by the host.
  PipelineCopies(Device& device, CompressionPipeline* pipeline)
      : device_(device), pipeline_(pipeline) {}
  PipelineCopies(const PipelineCopies&) = delete;
  PipelineCopies& operator=(const PipelineCopies&) = delete;

  // Begins an iteration with this number of copies on the host, all of them empty.
  void Begin(std::size_t copies);
  // Queues a copy out or in on a stream. `copy` is the number of the copy on the host, and `step`
  // that of the step. Receive waits on the host until the bytes have been stored.
  absl::Status Send(std::size_t copy, const void* from, std::int64_t bytes, Stream stream,
                    std::size_t step);
  absl::Status Receive(std::size_t copy, void* to, Stream stream, std::size_t step);
  // Waits for all transfers of the iteration. Returns the first that failed.
  std::optional<Failure> Wait();

  // The rest holds after Wait.

  // Returns the copy that was sent last; null for a copy that was not sent.
  const StoredBuffer* Stored(std::size_t copy) const;
  // Bytes of the host's memory that all stored copies hold.
  std::int64_t held_bytes() const;

 private:
  struct Transfer {
    explicit Transfer(std::size_t at) : step(at) {}

    const std::size_t step;
    std::latch ended = std::latch(1);
    // Written before `ended`.
    absl::Status status;
    std::shared_ptr<const StoredBuffer> stored;  // of a copy out
  };

  absl::Status WaitOn(Stream stream, const std::shared_ptr<Transfer>& transfer);

  Device& device_;
  CompressionPipeline* const pipeline_;
  std::vector<std::shared_ptr<Transfer>> transfers_;  // of the iteration, as they were queued
  std::vector<std::shared_ptr<Transfer>> sent_;       // by copy: the last one out
};

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_PIPELINE_COPIES_H_
