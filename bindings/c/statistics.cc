// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/statistics.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tidepool::c_api {
namespace {

#define FIELD(name) \
  StatisticsField { #name, &tidepool_statistics::name, &PoolStats::name }
constexpr std::array kFields = {
    FIELD(live_bytes),
    FIELD(live_count),
    FIELD(peak_live_bytes),
    FIELD(reserved_bytes),
    FIELD(peak_reserved_bytes),
    FIELD(max_bytes),
    FIELD(high_water_bytes),
    FIELD(free_bytes),
    FIELD(largest_hole_bytes),
    FIELD(allocations),
    FIELD(frees),
    FIELD(failures),
    FIELD(blocked),
    FIELD(stream_waits),
    FIELD(event_records),
    FIELD(growths),
    FIELD(remaps),
    FIELD(remapped_bytes),
    FIELD(planned),
    FIELD(deviations),
    FIELD(plans),
    FIELD(iterations),
};
#undef FIELD

// Each field of the structure stands in the table.
static_assert(sizeof(tidepool_statistics) == (kFields.size() + 1) * sizeof(std::size_t));

// The size of the structure in the first version. Later versions are larger.
constexpr std::size_t kFirstStatisticsSize = 23 * sizeof(std::size_t);
// A larger value is memory that no caller initialised.
constexpr std::size_t kMostStatisticsSize = 4096;

}  // namespace

std::span<const StatisticsField> StatisticsFields() { return kFields; }

tidepool_statistics ToC(const PoolStats& stats) {
  tidepool_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  for (const StatisticsField& field : kFields) {
    statistics.*field.member = static_cast<std::size_t>(stats.*field.source);
  }
  return statistics;
}

absl::Status FillStatistics(const PoolStats& stats, tidepool_statistics& statistics) {
  const std::size_t size = statistics.struct_size;
  if (size < kFirstStatisticsSize || size > kMostStatisticsSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "struct_size is ", size, ", expected sizeof(tidepool_statistics), ", sizeof statistics));
  }
  tidepool_statistics filled = ToC(stats);
  filled.struct_size = size;
  const std::size_t known = std::min(size, sizeof filled);
  auto* const bytes = reinterpret_cast<char*>(&statistics);
  std::memcpy(bytes, &filled, known);
  std::memset(bytes + known, 0, size - known);
  return absl::OkStatus();
}

}  // namespace tidepool::c_api
