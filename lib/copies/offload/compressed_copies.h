// SPDX-License-Identifier: Apache-2.0
// Compressed copies: a pipeline carries them, and its threads report their ends.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_COMPRESSED_COPIES_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_COMPRESSED_COPIES_H_

#include "absl/status/status.h"
#include "lib/copies/offload/buffer_records.h"
#include "lib/copies/offload/ended_copies.h"
#include "lib/memory/device/owned.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/device.h"

namespace tidepool::offload {

// Has no state of its own but its streams. The caller holds the mutex that guards the copies.
class CompressedCopies {
 public:
  // `pipeline` may be null; then no function below may be called. `ended` receives the ends.
  CompressedCopies(Device& device, CompressionPipeline* pipeline, EndedCopies& ended)
      : device_(device), pipeline_(pipeline), ended_(ended) {}
  CompressedCopies(const CompressedCopies&) = delete;
  CompressedCopies& operator=(const CompressedCopies&) = delete;

  // Creates the streams.
  absl::Status Start();
  bool has_pipeline() const { return pipeline_ != nullptr; }
  // Copies out wait for the work of this stream.
  Stream out_order() const { return out_order_.get(); }

  // Begin the copy. The copy in runs after the work that is queued on `stream` now.
  absl::Status BeginOut(const Buffer& buffer, ZeroValueWord word, const CopyWatch& watch,
                        const CopyPointer& copy);
  absl::Status BeginIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                       const CopyWatch& watch, const CopyPointer& copy);
  // Makes the stream wait for a copy in, by a host function.
  absl::Status MakeWait(Stream stream, const BufferCopy& copy);

 private:
  Device& device_;
  CompressionPipeline* const pipeline_;
  EndedCopies& ended_;
  // Streams without work but waits, after which the pipeline copies out and in. No other code
  // queues work there, so all events of one copy mark the same point.
  device::OwnedStream out_order_;
  device::OwnedStream in_order_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_COMPRESSED_COPIES_H_
