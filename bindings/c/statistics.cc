// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/statistics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

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
    FIELD(peak_budget_bytes),
};
#undef FIELD

// Each field of the structure stands in the table.
static_assert(sizeof(tidepool_statistics) == (kFields.size() + 1) * sizeof(std::size_t));

// The size of the structure in the first version. Later versions are larger.
constexpr std::size_t kFirstStatisticsSize = 23 * sizeof(std::size_t);
constexpr std::size_t kFirstRegionSize = 11 * sizeof(std::size_t);
// A larger value is memory that no caller initialised.
constexpr std::size_t kMostStatisticsSize = 4096;

struct Version {
  const char* name;
  std::size_t first_size;
};

constexpr Version kPoolVersion = {"tidepool_statistics", kFirstStatisticsSize};
constexpr Version kRegionVersion = {"tidepool_region_statistics", kFirstRegionSize};

template <typename Statistics>
absl::Status CheckSize(const Statistics& statistics, const Version& version) {
  const std::size_t size = statistics.struct_size;
  if (size >= version.first_size && size <= kMostStatisticsSize) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("struct_size is ", size, ", expected sizeof(",
                                                 version.name, "), ", sizeof statistics));
}

template <typename Statistics>
absl::Status Fill(Statistics filled, const Version& version, Statistics& statistics) {
  if (absl::Status status = CheckSize(statistics, version); !status.ok()) return status;
  const std::size_t size = statistics.struct_size;
  filled.struct_size = size;
  const std::size_t known = std::min(size, sizeof filled);
  auto* const bytes = reinterpret_cast<char*>(&statistics);
  std::memcpy(bytes, &filled, known);
  std::memset(bytes + known, 0, size - known);
  return absl::OkStatus();
}

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
  return Fill(ToC(stats), kPoolVersion, statistics);
}

tidepool_region_statistics ToC(const RegionStats& stats) {
  tidepool_region_statistics filled = {};
  filled.struct_size = sizeof filled;
  filled.tag = stats.tag.data();
  filled.is_asleep = stats.is_asleep ? 1 : 0;
  filled.live_bytes = static_cast<std::size_t>(stats.live_bytes);
  filled.live_count = static_cast<std::size_t>(stats.live_count);
  filled.reserved_bytes = static_cast<std::size_t>(stats.reserved_bytes);
  filled.host_bytes = static_cast<std::size_t>(stats.host_bytes);
  filled.pauses = static_cast<std::size_t>(stats.pauses);
  filled.resumes = static_cast<std::size_t>(stats.resumes);
  filled.copied_out_bytes = static_cast<std::size_t>(stats.copied_out_bytes);
  filled.copied_in_bytes = static_cast<std::size_t>(stats.copied_in_bytes);
  filled.stored_bytes = static_cast<std::size_t>(stats.stored_bytes);
  filled.least_bytes = static_cast<std::size_t>(stats.least_bytes);
  const bool has_most = stats.most_bytes < std::numeric_limits<std::int64_t>::max();
  filled.most_bytes = has_most ? static_cast<std::size_t>(stats.most_bytes) : SIZE_MAX;
  filled.blocked = static_cast<std::size_t>(stats.blocked);
  filled.kept_bytes = static_cast<std::size_t>(stats.kept_bytes);
  return filled;
}

absl::Status CheckStatistics(const tidepool_region_statistics& statistics) {
  return CheckSize(statistics, kRegionVersion);
}

absl::Status FillStatistics(const RegionStats& stats, tidepool_region_statistics& statistics) {
  return Fill(ToC(stats), kRegionVersion, statistics);
}

}  // namespace tidepool::c_api
