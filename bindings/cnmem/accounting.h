// SPDX-License-Identifier: Apache-2.0
// CNMeM's accounting: how much memory each stream has, although all streams share one pool.
#ifndef TIDEPOOL_BINDINGS_CNMEM_ACCOUNTING_H_
#define TIDEPOOL_BINDINGS_CNMEM_ACCOUNTING_H_

#include <cstdint>
#include <vector>

namespace tidepool::cnmem {

// The use of the pool that all streams share.
struct PoolUse {
  std::int64_t pool_bytes = 0;    // taken from the device
  std::int64_t budget_bytes = 0;  // at least pool_bytes
  std::int64_t live_bytes = 0;    // on the default stream
};

// The use of one stream. Reserved memory counts as the stream's own until another stream takes it.
struct StreamUse {
  std::int64_t reserved_bytes = 0;
  std::int64_t live_bytes = 0;
};

// The free memory as CNMeM counts it.
struct Shares {
  std::int64_t total_bytes = 0;                 // of the pool: live and free together
  std::int64_t free_bytes = 0;                  // free for all streams
  std::vector<std::int64_t> stream_free_bytes;  // free bytes of each stream's reservation
};

// Divides the free memory among the streams. Live and free bytes always add up to the total, and no
// figure is negative. A pool that may still grow counts reservations as if they were allocated
// already. If other streams hold reserved memory, the last streams in the list lack it.
Shares ShareOut(const PoolUse& pool, const std::vector<StreamUse>& streams);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_ACCOUNTING_H_
