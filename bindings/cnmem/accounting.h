// CNMeM's numbers: how much memory each stream has, when in truth all have one pool.
#ifndef TIDEPOOL_BINDINGS_CNMEM_ACCOUNTING_H_
#define TIDEPOOL_BINDINGS_CNMEM_ACCOUNTING_H_

#include <cstdint>
#include <vector>

namespace tidepool::cnmem {

// Of the pool.
struct PoolUse {
  std::int64_t pool_bytes = 0;    // taken of the device
  std::int64_t budget_bytes = 0;  // at least that
  std::int64_t live_bytes = 0;    // on the default stream
};

// Of a stream. What is reserved is its own as long as nobody took it.
struct StreamUse {
  std::int64_t reserved_bytes = 0;
  std::int64_t live_bytes = 0;
};

struct Shares {
  std::int64_t total_bytes = 0;                 // of the pool: all that is live or free
  std::int64_t free_bytes = 0;                  // for everybody
  std::vector<std::int64_t> stream_free_bytes;  // for each stream, of what is reserved for it
};

// What is live and what is free add up to the total, whatever the numbers; nothing is negative. A
// pool that may still grow counts as grown by what is reserved and not there. When others hold what
// was reserved, the last streams lack it.
Shares ShareOut(const PoolUse& pool, const std::vector<StreamUse>& streams);

}  // namespace tidepool::cnmem

#endif  // TIDEPOOL_BINDINGS_CNMEM_ACCOUNTING_H_
