// SPDX-License-Identifier: Apache-2.0
// PagePool: pageable host memory in pages of one size that were touched before they are needed.
// It holds data of a size that is not known beforehand.
//
// The first write to memory that is fresh from the system is slow. All functions are thread-safe.
// Calls that touch memory or give it back run one after the other. Other calls do not wait for
// them. A call that fails changes nothing but counters.
#ifndef TIDEPOOL_PAGE_POOL_H_
#define TIDEPOOL_PAGE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/host_pages.h"

namespace tidepool {

struct PagePoolOptions {
  // The size of a page: a power of two, 4 KiB to 1 GiB.
  std::int64_t page_bytes = std::int64_t{64} << 10;
  // The budget: at least one page, cut to whole pages. The pool takes addresses for all of it at
  // once, and memory when it is touched.
  std::int64_t max_bytes = 0;
  // The bytes that are touched when the pool is created, rounded up to whole pages.
  std::int64_t initial_bytes = 0;
  // Whether Take may touch more memory: at least 16 MiB, as far as the budget allows it.
  bool may_grow = true;
  // Huge pages cannot be required here.
  HostPageOptions pages = {};
};

struct PagePoolStats {
  std::int64_t page_bytes = 0;
  std::int64_t used_pages = 0;
  std::int64_t peak_used_pages = 0;
  std::int64_t touched_pages = 0;  // pages with memory, used or ready
  std::int64_t max_pages = 0;
  std::int64_t takes = 0;     // pages given out so far
  std::int64_t returns = 0;   // pages returned so far
  std::int64_t failures = 0;  // calls of Take that were refused
  std::int64_t growths = 0;   // calls of Take and Reserve that touched memory
};

// A call in which the host has no memory left (std::bad_alloc) ends the process, as for Pool.
class TIDEPOOL_EXPORT PagePool {
 public:
  // Creates a pool. InvalidArgument for options out of range; ResourceExhausted when the host lacks
  // memory or addresses for them.
  static absl::StatusOr<std::unique_ptr<PagePool>> Create(const PagePoolOptions& options);

  // Gives all memory back, also the memory of used pages: nothing may use it any more.
  virtual ~PagePool() = default;

  // Fills all of `pages` with the addresses of pages. Pages that were returned last are taken
  // first. Their contents are not cleared. ResourceExhausted, and takes no page, when the pool
  // cannot have them. O(pages), and touches memory when the pool grows.
  virtual absl::Status Take(absl::Span<void*> pages) = 0;
  // Takes pages back. InvalidArgument, and takes no page back, when a page is not in use or comes
  // twice. O(pages).
  virtual absl::Status Return(absl::Span<void* const> pages) = 0;

  // Touches memory until at least `bytes` are used or ready. InvalidArgument for more than the
  // budget; ResourceExhausted when the host lacks memory.
  virtual absl::Status Reserve(std::int64_t bytes) = 0;
  // Gives the memory of unused pages back to the host, as long as the pool keeps `keep_bytes`.
  // Returns the bytes given back. O(pages of the budget).
  virtual absl::StatusOr<std::int64_t> Trim(std::int64_t keep_bytes = 0) = 0;

  // Returns the counts of this moment. O(1).
  virtual PagePoolStats Stats() const = 0;

 protected:
  PagePool() = default;
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
};

}  // namespace tidepool

#endif  // TIDEPOOL_PAGE_POOL_H_
