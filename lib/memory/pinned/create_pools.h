// SPDX-License-Identifier: Apache-2.0
// Creates pools that take memory in pieces of chosen sizes. Tests choose small ones.
// PinnedPool::Create and PagePool::Create take the defaults of this file.
#ifndef TIDEPOOL_LIB_MEMORY_PINNED_CREATE_POOLS_H_
#define TIDEPOOL_LIB_MEMORY_PINNED_CREATE_POOLS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/page_pool.h"
#include "tidepool/pinned_pool.h"

namespace tidepool::pinned {

// Whole pages.
struct RegionSizes {
  // The bytes that an allocation pins at least, as far as the budget allows it: 64 MiB take about
  // 6 ms. For a buffer of more than a quarter of them it pins exactly the buffer.
  std::int64_t growth_bytes = std::int64_t{64} << 20;
  // The largest region; a larger buffer still gets a region of its size. CUDA drivers since r580
  // refuse to register 512 GiB in one call.
  std::int64_t most_bytes = std::int64_t{64} << 30;
};

absl::StatusOr<std::unique_ptr<PinnedPool>> CreatePinnedPool(Device* device,
                                                             const PinnedPoolOptions& options,
                                                             const RegionSizes& sizes = {});

// The bytes that PagePool::Take touches at least, as far as the budget allows it: 16 MiB take a few
// milliseconds.
inline constexpr std::int64_t kPageGrowthBytes = std::int64_t{16} << 20;

absl::StatusOr<std::unique_ptr<PagePool>> CreatePagePool(
    const PagePoolOptions& options, std::int64_t growth_bytes = kPageGrowthBytes);

}  // namespace tidepool::pinned

#endif  // TIDEPOOL_LIB_MEMORY_PINNED_CREATE_POOLS_H_
