// SPDX-License-Identifier: Apache-2.0
// The statistics of a pool as a C structure, and the names of its fields.
#ifndef TIDEPOOL_BINDINGS_C_STATISTICS_H_
#define TIDEPOOL_BINDINGS_C_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "tidepool/c_api.h"
#include "tidepool/pool.h"

namespace tidepool::c_api {

struct StatisticsField {
  const char* name;
  std::size_t tidepool_statistics::*member;
  std::int64_t PoolStats::*source;
};

// Returns all fields but struct_size, in the order of the structure.
std::span<const StatisticsField> StatisticsFields();

tidepool_statistics ToC(const PoolStats& stats);
tidepool_region_statistics ToC(const RegionStats& stats);

// Fills the caller's structure as far as it reaches. InvalidArgument for a struct_size that no
// version of the structure has, as CheckStatistics says beforehand.
absl::Status CheckStatistics(const tidepool_region_statistics& statistics);
absl::Status FillStatistics(const PoolStats& stats, tidepool_statistics& statistics);
absl::Status FillStatistics(const RegionStats& stats, tidepool_region_statistics& statistics);

}  // namespace tidepool::c_api

#endif  // TIDEPOOL_BINDINGS_C_STATISTICS_H_
