// SPDX-License-Identifier: Apache-2.0
// PoolObserver: sees every request that a pool serves or refuses, and the addresses that the pool
// has. A Recorder is an observer.
#ifndef TIDEPOOL_POOL_OBSERVER_H_
#define TIDEPOOL_POOL_OBSERVER_H_

#include <cstdint>
#include <string_view>

#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/sleep_mode.h"

namespace tidepool {

// A pool and its regions call these functions one at a time, under a lock. They must be short, and
// must not call the pool: that would be a deadlock.
class TIDEPOOL_EXPORT PoolObserver {
 public:
  virtual ~PoolObserver() = default;

  // The pool served an allocation. `address` names it until it is freed. `bytes` are the bytes that
  // the caller asked for, 1 to kMaxRequestBytes.
  virtual void Allocate(const void* address, std::int64_t bytes, Hint hint, Stream stream) = 0;
  virtual void Free(const void* address, Stream stream) = 0;
  // The pool refused an allocation.
  virtual void Failure(std::int64_t bytes, Hint hint, Stream stream) = 0;
  // The pool made `stream` wait, on the device, for `awaited`.
  virtual void Wait(Stream stream, Stream awaited) = 0;
  virtual void Mark(std::string_view name) = 0;

  // A region of the pool served or refused an allocation; its tag has 1 to 255 bytes. Its frees and
  // waits are told as those of the pool. By default these are requests like any other.
  virtual void AllocateIn([[maybe_unused]] std::string_view region, const void* address,
                          std::int64_t bytes, Hint hint, Stream stream) {
    Allocate(address, bytes, hint, stream);
  }
  virtual void FailureIn([[maybe_unused]] std::string_view region, std::int64_t bytes, Hint hint,
                         Stream stream) {
    Failure(bytes, hint, stream);
  }
  // A region sleeps after the work of `stream`: before others take its memory. It serves no
  // allocation until it wakes, which `Resume` tells after the region has memory again.
  virtual void Pause([[maybe_unused]] std::string_view region, [[maybe_unused]] SleepMode mode,
                     [[maybe_unused]] Stream stream) {}
  virtual void Resume([[maybe_unused]] std::string_view region, [[maybe_unused]] Stream stream) {}

  // The pool or a region has a range of addresses now: a segment, or all addresses of virtual
  // memory, of which any part may have memory. Every allocation lies inside one range; ranges do
  // not overlap.
  virtual void AddRange([[maybe_unused]] const void* begin, [[maybe_unused]] std::int64_t bytes) {}
  // The pool is about to give the range that begins at `begin` back to the device. The work that
  // used it has finished. Allocations are left in it only at the end of the pool. A pool that
  // leaves its memory to the device for ever, because work may still use it, does not call this.
  virtual void RemoveRange([[maybe_unused]] const void* begin) {}
};

}  // namespace tidepool

#endif  // TIDEPOOL_POOL_OBSERVER_H_
