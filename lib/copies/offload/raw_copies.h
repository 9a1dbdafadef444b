// SPDX-License-Identifier: Apache-2.0
// Raw copies: bytes as they are, on a stream for each direction, with an event after each copy.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_RAW_COPIES_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_RAW_COPIES_H_

#include "absl/status/status.h"
#include "lib/copies/offload/buffer_records.h"
#include "lib/memory/device/owned.h"
#include "tidepool/copies/offloader.h"
#include "tidepool/device.h"

namespace tidepool::offload {

// Has no state of its own but its streams. The caller holds the mutex that guards the copies,
// except in WaitForEnd.
class RawCopies {
 public:
  explicit RawCopies(Device& device) : device_(device) {}

  // Creates the streams; both directions may share one.
  absl::Status Start(bool is_one_stream);
  Stream out() const { return out_.get(); }
  Stream in() const { return in_.is_empty() ? out() : in_.get(); }

  // Gives the copy the event that marks its end.
  absl::Status TakeEvent(BufferCopy& copy);
  // Queue the copy, which has its event and host memory. The copy in runs after the work that is
  // queued on `stream` now.
  absl::Status QueueOut(const Buffer& buffer, const CopyWatch& watch, BufferCopy& copy);
  absl::Status QueueIn(const Buffer& buffer, DeviceMemory& to, Stream stream,
                       const CopyWatch& watch, BufferCopy& copy);

  // Records the event after the copy, unless it is recorded. After an earlier failure the event
  // also stands for work that was queued later: conservative, but correct.
  absl::Status RecordEnd(BufferCopy& copy);
  // Makes the stream wait for the copy, on the device.
  absl::Status MakeWait(Stream stream, BufferCopy& copy);
  // Returns whether the copy is known to have finished. Does not wait.
  bool HasFinished(BufferCopy& copy);
  // Waits on the host until the copy has finished. A copy counts as finished after repeated errors
  // too: otherwise its end would never be known. Called without locks.
  absl::Status WaitForEnd(const BufferCopy& copy, bool is_recorded) const;
  // Makes the home stream of the device memory wait for the copy, before the memory is freed. The
  // pool then sees one stream, and the next allocation on it waits for no other stream: so
  // placement does not depend on the speed of copies. After an error the memory's destructor
  // records the use by the copy's stream instead.
  void OrderHomeAfter(BufferCopy& copy);

 private:
  Device& device_;
  device::OwnedStream out_;
  device::OwnedStream in_;  // empty: both directions share a stream
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_RAW_COPIES_H_
