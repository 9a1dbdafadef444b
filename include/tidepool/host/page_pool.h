// SPDX-License-Identifier: Apache-2.0
// PagePool: pageable memory of the host in pages of one size that were touched before they are
// needed, for data whose size is known only when it is there.
//
// Memory that is fresh from the system is slow the first time that it is written. All functions are
// thread-safe. Calls that touch memory or give it back come one after the other; they hold up no
// other call. A call that fails changes nothing but counters.
#ifndef TIDEPOOL_HOST_PAGE_POOL_H_
#define TIDEPOOL_HOST_PAGE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/host/host_pages.h"

namespace tidepool {

struct PagePoolOptions {
  // Of a page: a power of two, 4 KiB to 1 GiB.
  std::int64_t page_bytes = std::int64_t{64} << 10;
  // The budget, of whole pages: at least one. Addresses for it are taken at once, memory is not.
  std::int64_t max_bytes = 0;
  // Touched when the pool is created; rounded up to whole pages.
  std::int64_t initial_bytes = 0;
  // Whether Take may touch more, and how much at least, as far as the budget allows it.
  bool may_grow = true;
  std::int64_t growth_bytes = std::int64_t{16} << 20;
  // Huge pages cannot be required here.
  HostPageOptions pages = {};
};

struct PagePoolStats {
  std::int64_t page_bytes = 0;
  std::int64_t used_pages = 0;
  std::int64_t peak_used_pages = 0;
  std::int64_t touched_pages = 0;  // memory of the host, used or ready
  std::int64_t peak_touched_pages = 0;
  std::int64_t max_pages = 0;
  std::int64_t takes = 0;  // pages given out so far
  std::int64_t returns = 0;
  std::int64_t failures = 0;  // calls of Take that were refused
  std::int64_t growths = 0;   // of those, and of Reserve, that touched memory
  std::int64_t touch_ns = 0;  // the time that took
};

class TIDEPOOL_EXPORT PagePool {
 public:
  // InvalidArgument for options out of range; ResourceExhausted when the host has not so much
  // memory, or not so many addresses.
  static absl::StatusOr<std::unique_ptr<PagePool>> Create(const PagePoolOptions& options);

  // Gives all memory back, that of pages in use too: nothing uses it any more.
  virtual ~PagePool() = default;

  // Fills `pages` with pages, those first that were returned last, or takes none: ResourceExhausted
  // when there are not so many. What is in them is what was there before. O(pages), and touches
  // memory where the pool grows.
  virtual absl::Status Take(absl::Span<void*> pages) = 0;
  // Takes pages back, or none: InvalidArgument when one is not in use or comes twice. O(pages).
  virtual absl::Status Return(absl::Span<void* const> pages) = 0;

  // Touches memory until at least `bytes` are used or ready. InvalidArgument when that is more than
  // the budget.
  virtual absl::Status Reserve(std::int64_t bytes) = 0;
  // Gives the memory of pages that are not in use back to the host, as long as the pool keeps
  // `keep_bytes`; says how much. O(pages of the budget).
  virtual absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes = 0) = 0;

  // O(1).
  virtual PagePoolStats Stats() const = 0;

 protected:
  PagePool() = default;
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_HOST_PAGE_POOL_H_
