// SPDX-License-Identifier: Apache-2.0
// Errors of copies that no caller has received, and the device memory that is kept for them.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_UNREPORTED_ERRORS_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_UNREPORTED_ERRORS_H_

#include <cstdint>
#include <list>

#include "absl/status/status.h"
#include "lib/copies/offload/buffer_records.h"
#include "lib/copies/offload/changes.h"

namespace tidepool::offload {

// A buffer has its own failed copy (Buffer::failed). This class keeps failed copies after their
// buffer was freed or copied again. The mutex of OffloaderState guards it.
class UnreportedErrors {
 public:
  // A release of kept memory is a change of `ended`: a request may wait for the memory.
  explicit UnreportedErrors(Changes& changes) : changes_(changes) {}

  // Adds a failed copy, unless it is a copy in after which no work runs. Keeps only the earliest of
  // all, and each copy with kept memory: so there are no more than the memory allows.
  void Add(const CopyPointer& copy);
  // Takes the error from the buffer, and adds it.
  void Detach(Buffer& buffer);

  // Returns the error of the buffer's last copy, which has failed, and forgets it. The caller
  // queues no more work with an address that Use gave before.
  absl::Status Take(Buffer& buffer);
  // Returns the earliest error of all, and forgets it. `first_failed` is the buffer with the
  // earliest failed copy, or null.
  absl::Status TakeEarliest(Buffer* first_failed);

  // Releases memory kept for the buffer. No more work may be queued with its address.
  void ReleaseMemory(const Buffer& buffer);
  // Returns the bytes of kept memory, except that of buffers' failed copies.
  std::int64_t KeptBytes() const;

 private:
  void ReleaseMemory(BufferCopy& copy);

  Changes& changes_;
  std::list<CopyPointer> copies_;  // in the order of sequence numbers
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_UNREPORTED_ERRORS_H_
