// SPDX-License-Identifier: Apache-2.0
// Serves reservations in the order of the streams, from the bytes that are free.
#include "bindings/cnmem/accounting.h"

#include <algorithm>

namespace tidepool::cnmem {

Shares ShareOut(const PoolUse& pool, const std::vector<StreamUse>& streams) {
  std::int64_t live = pool.live_bytes;
  std::int64_t claimed = pool.live_bytes;
  for (const StreamUse& stream : streams) {
    live += stream.live_bytes;
    claimed += std::max(stream.live_bytes, stream.reserved_bytes);
  }
  Shares shares;
  shares.total_bytes = std::max({pool.pool_bytes, std::min(claimed, pool.budget_bytes), live});
  shares.free_bytes = shares.total_bytes - live;
  for (const StreamUse& stream : streams) {
    const std::int64_t left = std::max<std::int64_t>(0, stream.reserved_bytes - stream.live_bytes);
    const std::int64_t own = std::min(left, shares.free_bytes);
    shares.stream_free_bytes.push_back(own);
    shares.free_bytes -= own;
  }
  return shares;
}

}  // namespace tidepool::cnmem
