// SPDX-License-Identifier: Apache-2.0
// StagingRing: a few slots of pinned memory, handed out in turn, for data that passes through the
// host in pieces.
//
// Acquire hands out slots 0, 1, ..., 0, 1, ... in this order. So the thread that fills slots and
// the thread that empties them agree on the order without a message. Slots are released in any
// order. Acquire waits for the next slot in turn, even if another slot is free. Waiting threads are
// served in the order of arrival. All functions are thread-safe and O(1).
#ifndef TIDEPOOL_STAGING_RING_H_
#define TIDEPOOL_STAGING_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/export.h"
#include "tidepool/pinned_pool.h"

namespace tidepool {

struct StagingRingOptions {
  std::int64_t slots = 4;  // 1 to 65,536
  std::int64_t slot_bytes = std::int64_t{256} << 10;
};

struct StagingSlot {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  std::int64_t index = 0;  // below `slots`
};

struct StagingRingStats {
  std::int64_t acquires = 0;
  std::int64_t blocked = 0;  // calls of Acquire that had to wait
  std::int64_t in_use = 0;
  std::int64_t peak_in_use = 0;
};

class TIDEPOOL_EXPORT StagingRing {
 public:
  // Creates a ring in one buffer of `pool`, which outlives it. Slots lie one after the other, each
  // at a multiple of the pool's alignment. InvalidArgument for options out of range; otherwise the
  // pool's error.
  static absl::StatusOr<std::unique_ptr<StagingRing>> Create(PinnedPool* pool,
                                                             const StagingRingOptions& options);

  // Gives the memory back: no slot is in use any more and no thread waits.
  virtual ~StagingRing() = default;

  // Returns the next slot in turn when it is free. DeadlineExceeded when the deadline passes first:
  // the slot is then still the next in turn. A deadline in the past does not wait. Cancelled after
  // Close.
  virtual absl::StatusOr<StagingSlot> Acquire(absl::Time deadline = absl::InfiniteFuture()) = 0;
  // Takes a slot back: no work uses it any more. InvalidArgument for a slot that is not in use.
  virtual absl::Status Release(std::int64_t index) = 0;
  // Closes the ring, so that a pipeline can stop: Acquire returns Cancelled from now on, also to
  // threads that wait. Slots in use are still released.
  virtual void Close() = 0;

  virtual std::int64_t slots() const = 0;
  virtual std::int64_t slot_bytes() const = 0;
  virtual StagingRingStats Stats() const = 0;

 protected:
  StagingRing() = default;
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_STAGING_RING_H_
