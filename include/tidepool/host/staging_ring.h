// SPDX-License-Identifier: Apache-2.0
// StagingRing: a few slots of pinned memory, handed out in a circle, for what passes through the
// host in pieces.
//
// Slots go round: 0, 1, ..., 0, 1, ... in the order of Acquire, so who fills and who empties them
// agree on the order without a word. They are released in any order; who comes waits for the slot
// whose turn it is, even if another one is free. Who waits is served in the order in which they
// came. All functions are thread-safe and O(1).
#ifndef TIDEPOOL_HOST_STAGING_RING_H_
#define TIDEPOOL_HOST_STAGING_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/export.h"
#include "tidepool/host/pinned_pool.h"

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
  std::int64_t blocked = 0;  // of these, those that had to wait
  std::int64_t in_use = 0;
  std::int64_t peak_in_use = 0;
};

class TIDEPOOL_EXPORT StagingRing {
 public:
  // Takes its memory from `pool`, which outlives it: one buffer, a slot after the other, each at a
  // multiple of the pool's alignment. InvalidArgument for options out of range; otherwise the
  // pool's error.
  static absl::StatusOr<std::unique_ptr<StagingRing>> Create(PinnedPool* pool,
                                                             const StagingRingOptions& options);

  // Gives the memory back: no slot is in use any more and nobody waits.
  virtual ~StagingRing() = default;

  // The next slot, once it is free. DeadlineExceeded when it is not until the deadline, and its
  // turn stays where it is; a deadline in the past does not wait. Cancelled once the ring was
  // closed.
  virtual absl::StatusOr<StagingSlot> Acquire(absl::Time deadline = absl::InfiniteFuture()) = 0;
  // Takes a slot back: no work uses it any more. InvalidArgument when it is not in use.
  virtual absl::Status Release(std::int64_t index) = 0;
  // From here on Acquire returns Cancelled, to those that wait too: for who must stop. What is in
  // use is still released.
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

#endif  // TIDEPOOL_HOST_STAGING_RING_H_
