// SPDX-License-Identifier: Apache-2.0
// The errors of refused allocations: the request, the state of the pool, and a remedy.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_OUT_OF_MEMORY_H_
#define TIDEPOOL_LIB_MEMORY_POOL_OUT_OF_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "lib/memory/pool/live_report.h"
#include "tidepool/pool.h"

namespace tidepool::pool {

// ResourceExhausted. `bytes` are the caller's. `growth_error` is that of MemorySource, of the last
// growth for this request.
// Reads the live and largest free memory and the budget of `stats`.
absl::Status OutOfMemory(std::size_t bytes, const PoolStats& stats, std::string_view growth_error,
                         const PoolWords& words);
// ResourceExhausted, while free memory is kept for a waiter that was overtaken often.
absl::Status QueueClosed(const PoolWords& words);
// DeadlineExceeded, for a request that waited; with an error of growth if that is not empty.
absl::Status DeadlinePassed(std::int64_t bytes, const PoolStats& stats,
                            std::string_view growth_error = {});
// Cancelled, for a request that its caller stopped.
absl::Status WaitStopped(std::int64_t bytes);

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_OUT_OF_MEMORY_H_
