// SPDX-License-Identifier: Apache-2.0
// PinnedPool: page-locked memory of the host, in buffers of the sizes asked for, under a hard
// budget.
//
// To pin memory takes a device long, so it is pinned in a few large *regions*: mapped, touched by
// several threads at once, then registered with the device. That happens when the pool is created,
// in Reserve and Trim, and in an allocation only where the options allow it. A buffer is as large
// as it was asked for, rounded up to the alignment: nothing is rounded to a power of two.
//
// A buffer is freed when no work of the device uses it any more; the next allocation may get its
// memory at once. All functions are thread-safe. A call that fails changes nothing but counters
// and, where the device failed half-way, how much memory the pool holds. Calls that pin or unpin
// memory come one after the other; they hold up no other call.
#ifndef TIDEPOOL_HOST_PINNED_POOL_H_
#define TIDEPOOL_HOST_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/host/host_pages.h"

namespace tidepool {

struct PinnedPoolOptions {
  // The budget: the pool never pins more. At least a page of 4 KiB (2 MiB where huge pages are
  // required); what is no whole page is left out.
  std::int64_t max_bytes = 0;
  // Pinned when the pool is created. kWholeBudget: all of it.
  static constexpr std::int64_t kWholeBudget = -1;
  std::int64_t initial_bytes = kWholeBudget;
  // Whether an allocation may pin memory, which takes about a tenth of a second for a GiB on a good
  // day. Where it may not, and there is no room, it is refused or waits.
  bool may_grow = false;
  // What an allocation pins at least, as far as the budget allows it; for buffers of a quarter of
  // it and more, exactly the buffer.
  std::int64_t growth_bytes = std::int64_t{64} << 20;
  // Regions are no larger, but for a buffer that is: drivers of CUDA refuse to register 512 GiB at
  // once.
  std::int64_t most_region_bytes = std::int64_t{64} << 30;
  // Of buffers, and what their sizes are rounded up to: a power of two, 64 to 4096. At 512, sizes
  // of 64 KiB and more are rounded up by less than 0.8 %; at 4096, by up to 6.3 %.
  std::int64_t alignment = 512;
  HostPageOptions pages = {};
};

struct PinnedPoolStats {
  std::int64_t live_bytes = 0;   // rounded up to the alignment, as all sizes but the next two
  std::int64_t asked_bytes = 0;  // of live buffers, as they were asked for
  std::int64_t peak_asked_bytes = 0;
  std::int64_t live_count = 0;
  std::int64_t peak_live_bytes = 0;
  // What rounding costs now.
  std::int64_t wasted_bytes() const { return live_bytes - asked_bytes; }
  std::int64_t reserved_bytes = 0;  // pinned
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t max_bytes = 0;
  std::int64_t free_bytes = 0;          // pinned and not live
  std::int64_t largest_hole_bytes = 0;  // of these, in one piece
  std::int64_t regions = 0;

  std::int64_t allocations = 0;
  std::int64_t frees = 0;
  std::int64_t failures = 0;  // allocations that were refused
  std::int64_t blocked = 0;   // allocations that had to wait for memory
  std::int64_t growths = 0;   // allocations for which memory was pinned
  std::int64_t pins = 0;      // regions pinned so far
  std::int64_t pin_ns = 0;    // the time that took
};

class TIDEPOOL_EXPORT PinnedPool {
 public:
  // `device` outlives the pool. InvalidArgument for options out of range, a NUMA node that there is
  // not among them; ResourceExhausted when the host has not so much memory, or not so many huge
  // pages; what the system says where a process may not choose a NUMA node; otherwise the device's
  // error.
  static absl::StatusOr<std::unique_ptr<PinnedPool>> Create(Device* device,
                                                            const PinnedPoolOptions& options);

  // Gives the memory back: nothing uses it any more. What is still live is reported on stderr. What
  // the device does not take back, not even when it is asked twice, stays mapped.
  virtual ~PinnedPool() = default;

  // At least `bytes` bytes. Null for zero bytes, of which nothing more is known. ResourceExhausted,
  // with what would help, when there is no room. O(log buffers), unless the pool grows: then
  // regions without a live buffer may be given back for a new one.
  virtual absl::StatusOr<void*> Allocate(std::size_t bytes) = 0;

  // The same, and waits until frees make room or the deadline is past (DeadlineExceeded). Requests
  // wait in line: they are served in the order in which they came, except that one for which there
  // is room may overtake others, each of them Pool::kMostOvertakes times at most.
  // ResourceExhausted when no free will make room any more: at once where it is more than the
  // budget or nothing is live, else with the last free.
  virtual absl::StatusOr<void*> AllocateBlocking(std::size_t bytes,
                                                 absl::Time deadline = absl::InfiniteFuture()) = 0;

  // Takes back a buffer. Null is taken and ignored. InvalidArgument when no live buffer begins at
  // `address`. O(log buffers).
  virtual absl::Status Free(void* address) = 0;

  // Pins memory until the pool holds at least `bytes`, whether it may grow or not.
  // InvalidArgument when that is more than the budget.
  virtual absl::Status Reserve(std::int64_t bytes) = 0;

  // Unpins regions in which nothing is live and gives them back to the host, as long as the pool
  // keeps `keep_bytes`; says how much.
  virtual absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes = 0) = 0;

  // O(1).
  virtual PinnedPoolStats Stats() const = 0;
  // Internal, with the first violation, when the pool's books contradict each other: for tests. O(n
  // log n).
  virtual absl::Status CheckInvariants() const = 0;

 protected:
  PinnedPool() = default;
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_HOST_PINNED_POOL_H_
