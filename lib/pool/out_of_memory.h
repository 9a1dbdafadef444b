// What an allocation that is refused says: what was asked for, how things stand, what would help.
#ifndef TIDEPOOL_LIB_POOL_OUT_OF_MEMORY_H_
#define TIDEPOOL_LIB_POOL_OUT_OF_MEMORY_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// ResourceExhausted. `bytes` are as asked for. `growth_error` is what the device said when the pool
// last tried to grow for this request; empty when it did not try.
absl::Status OutOfMemory(std::size_t bytes, const PoolStats& stats, std::string_view growth_error);

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_OUT_OF_MEMORY_H_
