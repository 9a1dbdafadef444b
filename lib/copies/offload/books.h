// SPDX-License-Identifier: Apache-2.0
// The books of an offloader: its buffers, their copies in flight, and the changes that ends of
// copies make. A copy is settled when these changes are made.
#ifndef TIDEPOOL_LIB_COPIES_OFFLOAD_BOOKS_H_
#define TIDEPOOL_LIB_COPIES_OFFLOAD_BOOKS_H_

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/copies/offload/buffer_memory.h"
#include "lib/copies/offload/buffer_records.h"
#include "lib/copies/offload/changes.h"
#include "lib/copies/offload/copies.h"
#include "lib/copies/offload/ended_copies.h"
#include "lib/copies/offload/unreported_errors.h"
#include "tidepool/copies/offloader.h"

namespace tidepool::offload {

// The copies that are not settled, in the order in which they were queued. The mutex of
// OffloaderState guards it.
class CopiesInFlight {
 public:
  void Add(const CopyPointer& copy) { ListOf(*copy).push_back(copy); }
  void Remove(const CopyPointer& copy) {
    std::list<CopyPointer>& copies = ListOf(*copy);
    copies.erase(std::find(copies.begin(), copies.end(), copy));
  }

  const std::list<CopyPointer>& ins() const { return ins_; }
  // Returns the copies of both directions.
  std::vector<CopyPointer> All() const;
  // Returns the earliest copy with an end that gives device memory back to the pool, or null.
  CopyPointer FirstLeaving() const;
  // Returns the earliest raw copy out, or the earliest compressed copy out that has ended, or null.
  CopyPointer FirstOut(bool is_compressed) const;

 private:
  std::list<CopyPointer>& ListOf(const BufferCopy& copy) { return copy.is_out ? outs_ : ins_; }

  std::list<CopyPointer> outs_;
  std::list<CopyPointer> ins_;
};

// The mutex of OffloaderState guards it. No function waits.
class Books {
 public:
  Books(OffloaderOptions::Release release, Copies& copies, EndedCopies& ended, Changes& changes)
      : release_(release), copies_(copies), ended_(ended), changes_(changes), errors_(changes) {}

  Holdings& holdings() { return holdings_; }
  BufferTable& buffers() { return buffers_; }
  CopiesInFlight& in_flight() { return in_flight_; }
  UnreportedErrors& errors() { return errors_; }
  OffloaderStats& counts() { return counts_; }
  OffloaderStats Stats() const;

  // Returns a buffer that is on the device or coming back. No more work may be queued with its
  // address. Errors: NotFound, and those of CheckIsOnDevice.
  absl::StatusOr<Buffer*> FindToOffload(BufferId id);
  // Checks that the buffer is on the device or coming back. Otherwise returns the error of a copy
  // back that failed, once, or FailedPrecondition.
  absl::Status CheckIsOnDevice(Buffer& buffer);
  // Returns, once, the error of a copy out that failed and left the buffer on the device.
  absl::Status TakeOffloadError(Buffer& buffer);

  // Returns a copy of the buffer with the next sequence number.
  CopyPointer NewCopy(const Buffer& buffer, bool is_out);
  // Make the changes of a copy that has begun.
  void BeginOffload(Buffer& buffer, const CopyPointer& copy);
  void BeginPrefetch(Buffer& buffer, const CopyPointer& copy, std::shared_ptr<DeviceMemory> memory);
  // Lets a buffer that is going out stay. The copy continues without effect.
  void CancelOffload(Buffer& buffer);
  // Removes the buffer. Its memory goes back to the pool after copies in flight.
  void Free(Buffer& buffer);

  // Takes the ends that the pipeline's threads have left.
  void CollectEnded();
  // Makes the changes of a copy's end, the first time. Its predecessor must be settled.
  void Settle(const CopyPointer& copy, const absl::Status& result);
  // Settles finished copies for which no call waits: copies in, and cancelled copies out. Their
  // host memory goes back.
  void SettleUnawaited();

 private:
  void SettleOut(Buffer& buffer, const CopyPointer& copy);
  void SettleIn(Buffer& buffer, const CopyPointer& copy);
  // Settles the copy back of the buffer if it is known to have failed.
  void SettleFailedArrival(Buffer& buffer);
  void CountEnd(const BufferCopy& copy);
  void NoteCancelled(const CopyPointer& copy);
  void SettleCancelled();

  const OffloaderOptions::Release release_;
  Copies& copies_;
  EndedCopies& ended_;
  Changes& changes_;
  Holdings holdings_;
  OffloaderStats counts_;
  UnreportedErrors errors_;
  CopiesInFlight in_flight_;
  std::list<CopyPointer> cancelled_;  // copies out for which perhaps no caller waits
  std::int64_t last_sequence_ = 0;
  BufferTable buffers_;
};

}  // namespace tidepool::offload

#endif  // TIDEPOOL_LIB_COPIES_OFFLOAD_BOOKS_H_
