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

#define FIELD(name, is_counter, help) \
  StatisticsField { #name, is_counter, help, &tidepool_statistics::name, &PoolStats::name }
#define GAUGE(name, help) FIELD(name, false, help)
#define COUNTER(name, help) FIELD(name, true, help)
constexpr std::array kFields = {
    GAUGE(live_bytes, "bytes of live allocations"),
    GAUGE(live_count, "live allocations"),
    GAUGE(peak_live_bytes, "most bytes that were live at a time"),
    GAUGE(reserved_bytes, "bytes held of the device"),
    GAUGE(peak_reserved_bytes, "most bytes held of the device at a time"),
    GAUGE(max_bytes, "the budget in bytes"),
    GAUGE(high_water_bytes, "the highest end of any block so far"),
    GAUGE(free_bytes, "bytes held and not live"),
    GAUGE(largest_hole_bytes, "bytes of the largest free block"),
    COUNTER(allocations, "allocations served"),
    COUNTER(frees, "frees"),
    COUNTER(failures, "allocations refused"),
    COUNTER(blocked, "allocations that waited for memory"),
    COUNTER(stream_waits, "waits of a stream for another one"),
    COUNTER(event_records, "events recorded"),
    COUNTER(growths, "times the pool took memory from the device"),
    COUNTER(remaps, "requests for which free memory was moved"),
    COUNTER(remapped_bytes, "bytes moved for them"),
    COUNTER(planned, "requests served at their planned offsets"),
    COUNTER(deviations, "requests that a plan did not foresee, or that did not come"),
    COUNTER(plans, "plans made"),
    COUNTER(iterations, "iterations seen"),
    GAUGE(peak_budget_bytes, "most bytes that the pool and its regions held at a time"),
};
#undef COUNTER
#undef GAUGE
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
