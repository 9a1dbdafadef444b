// SPDX-License-Identifier: Apache-2.0
// Copies of both kinds, raw and compressed, and the streams that wait for them.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_COPIES_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_COPIES_H_

#include <optional>

#include "absl/status/status.h"
#include "lib/copies/offload/buffer_records.h"
#include "lib/copies/offload/compressed_copies.h"
#include "lib/copies/offload/ended_copies.h"
#include "lib/copies/offload/raw_copies.h"
#include "tidepool/copies/offloader.h"

namespace tidepool::offload {

// The caller holds the mutex that guards the copies, except in raw().WaitForEnd.
class Copies {
 public:
  Copies(Device& device, CompressionPipeline* pipeline, EndedCopies& ended)
      : device_(device), raw_(device), compressed_(device, pipeline, ended) {}

  absl::Status Start(bool is_one_stream);
  bool can_compress() const { return compressed_.has_pipeline(); }
  const RawCopies& raw() const { return raw_; }
  RawCopies& raw() { return raw_; }

  // Begins a copy out after the event and after the copy's predecessor: compressed if there is a
  // `word`. A raw copy has its host memory.
  absl::Status BeginOut(const Buffer& buffer, Event after, std::optional<ZeroValueWord> word,
                        const CopyWatch& watch, const CopyPointer& copy);
  // Begins a copy in after the work that is queued on `stream` now.
  absl::Status BeginIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                       const CopyWatch& watch, const CopyPointer& copy);
  // Makes the stream wait for the copy in, once. If it is the home stream of the memory, later
  // frees there are ordered after the copy.
  absl::Status MakeWait(Stream stream, BufferCopy& copy);
  // Returns whether the copy is known to have finished. Does not wait.
  bool HasFinished(BufferCopy& copy);
  // Makes the home stream of the buffer's memory wait for a raw copy.
  void OrderHomeAfter(BufferCopy& copy) {
    if (!copy.is_compressed) raw_.OrderHomeAfter(copy);
  }

 private:
  absl::Status WaitFirst(Stream stream, Event after, const CopyPointer& predecessor);

  Device& device_;
  RawCopies raw_;
  CompressedCopies compressed_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_COPIES_H_
