// SPDX-License-Identifier: Apache-2.0
// PinnedPool: page-locked host memory in buffers of any size, under a hard budget.
//
// Pinning memory is slow, so the pool pins a few large *regions*. A region is mapped, touched by
// several threads at once, and then registered with the device by one call. The pool pins and
// unpins when it is created, in Reserve and in Trim. An allocation does so only with `may_grow`. A
// region has at most 64 GiB, unless one buffer is larger: CUDA drivers refuse to register 512 GiB
// in one call. The size of a buffer is rounded up to the alignment, never to a power of two.
//
// Free a buffer only when no work of the device uses it any more: the next allocation may get its
// memory at once. All functions are thread-safe. A call that fails changes nothing but counters
// and, when the device failed half-way, how much memory the pool holds. Calls that pin or unpin
// memory run one after the other. Other calls do not wait for them, except AllocateBlocking while
// nothing is live.
#ifndef TIDEPOOL_PINNED_POOL_H_
#define TIDEPOOL_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/host_pages.h"

namespace tidepool {

struct PinnedPoolOptions {
  // The budget: the pool never pins more. At least a page of 4 KiB, or of 2 MiB when huge pages are
  // required. It is cut to whole pages.
  std::int64_t max_bytes = 0;
  static constexpr std::int64_t kWholeBudget = -1;
  // The bytes that are pinned when the pool is created. kWholeBudget: the whole budget.
  std::int64_t initial_bytes = kWholeBudget;
  // Whether an allocation may pin memory, which takes about 0.1 s for a GiB or longer: exactly the
  // buffer, in whole pages, if that is larger than 16 MiB; otherwise 64 MiB, as far as the budget
  // allows it. Without it an allocation that finds no room is refused or waits.
  bool may_grow = false;
  // Addresses and sizes of buffers are multiples of this power of two, 64 to 4096. At 512, sizes of
  // 64 KiB and more are rounded up by less than 0.8 %; at 4096, by up to 6.3 %.
  std::int64_t alignment = 512;
  HostPageOptions pages = {};
};

struct PinnedPoolStats {
  std::int64_t live_bytes = 0;   // the sizes of live buffers, rounded up to the alignment
  std::int64_t asked_bytes = 0;  // the sizes of live buffers, as they were requested
  std::int64_t peak_asked_bytes = 0;
  std::int64_t live_count = 0;
  std::int64_t peak_live_bytes = 0;
  // Returns the bytes that rounding costs now.
  std::int64_t wasted_bytes() const { return live_bytes - asked_bytes; }
  std::int64_t reserved_bytes = 0;  // pinned
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t max_bytes = 0;
  std::int64_t free_bytes = 0;          // pinned and not live
  std::int64_t largest_hole_bytes = 0;  // the largest buffer that is free in one piece
  std::int64_t regions = 0;

  std::int64_t allocations = 0;
  std::int64_t frees = 0;
  std::int64_t failures = 0;  // allocations that were refused
  std::int64_t blocked = 0;   // allocations that had to wait for memory
  std::int64_t growths = 0;   // allocations for which memory was pinned
  std::int64_t pins = 0;      // regions pinned so far
  std::int64_t pin_ns = 0;    // the time that pinning took
};

// A call in which the host has no memory left (std::bad_alloc) ends the process, as for Pool.
class TIDEPOOL_EXPORT PinnedPool {
 public:
  // Creates a pool. `device` outlives it. InvalidArgument for options out of range, including an
  // unknown NUMA node; ResourceExhausted when the host lacks memory or huge pages; the system's
  // error when the process may not choose a NUMA node; otherwise the device's error.
  static absl::StatusOr<std::unique_ptr<PinnedPool>> Create(Device* device,
                                                            const PinnedPoolOptions& options);

  // Gives all memory back: nothing may use it any more. Live buffers are reported on stderr. A
  // region that the device refuses twice to unregister stays mapped.
  virtual ~PinnedPool() = default;

  // Returns a buffer of at least `bytes` bytes. Null for zero bytes, which is not counted.
  // ResourceExhausted, with a remedy, when there is no room. O(log buffers), unless the pool grows.
  // Growth may give regions without live buffers back for a new region.
  virtual absl::StatusOr<void*> Allocate(std::size_t bytes) = 0;

  // Allocates like Allocate, but waits until there is room. DeadlineExceeded when the deadline
  // passes first. Requests wait in a queue and are served in the order of arrival. A request for
  // which there is room may overtake earlier requests, each of them at most Pool::kMostOvertakes
  // times. ResourceExhausted when no free can make room any more: at once for more than the budget
  // or when nothing is live, otherwise with the last free.
  virtual absl::StatusOr<void*> AllocateBlocking(std::size_t bytes,
                                                 absl::Time deadline = absl::InfiniteFuture()) = 0;

  // Frees a buffer; null is ignored. InvalidArgument when no live buffer begins at `address`.
  // O(log buffers).
  virtual absl::Status Free(void* address) = 0;

  // Pins memory until the pool holds at least `bytes`, also without `may_grow`. InvalidArgument for
  // more than the budget; ResourceExhausted when the host lacks memory; otherwise the device's
  // error. The regions that were pinned before an error stay.
  virtual absl::Status Reserve(std::int64_t bytes) = 0;

  // Unpins regions in which nothing is live and gives them back to the host, as long as the pool
  // keeps `keep_bytes`. Returns the bytes given back.
  virtual absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes = 0) = 0;

  // Returns the counts of this moment. O(1).
  virtual PinnedPoolStats Stats() const = 0;
  // Checks the pool's data for contradictions: for tests. Internal, with the first contradiction.
  // O(blocks log blocks).
  virtual absl::Status CheckInvariants() const = 0;

 protected:
  PinnedPool() = default;
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_PINNED_POOL_H_
