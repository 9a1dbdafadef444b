// SPDX-License-Identifier: Apache-2.0
// Statistics of pools as text: a table for people, and metrics for Prometheus.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/metric_family.h"
#include "lib/base/text/sizes.h"
#include "tidepool/metrics.h"
#include "tidepool/pool.h"

namespace tidepool {
namespace {

using text::MetricFamily;
using text::MetricKind;

template <typename Stats>
struct Field {
  const char* name;
  MetricKind kind;
  const char* help;  // for operators, one line
  std::int64_t Stats::*member;
};

#define GAUGE(stats, name, help) \
  Field<stats> { #name, MetricKind::kGauge, help, &stats::name }
#define COUNTER(stats, name, help) \
  Field<stats> { #name, MetricKind::kCounter, help, &stats::name }
constexpr std::array kPoolFields = {
    GAUGE(PoolStats, live_bytes, "bytes of live allocations"),
    GAUGE(PoolStats, live_count, "live allocations"),
    GAUGE(PoolStats, peak_live_bytes, "most bytes that were live at a time"),
    GAUGE(PoolStats, reserved_bytes, "bytes held of the device"),
    GAUGE(PoolStats, peak_reserved_bytes, "most bytes held of the device at a time"),
    GAUGE(PoolStats, max_bytes, "the budget in bytes"),
    GAUGE(PoolStats, high_water_bytes, "the highest end of any block so far"),
    GAUGE(PoolStats, free_bytes, "bytes held and not live"),
    GAUGE(PoolStats, largest_hole_bytes, "bytes of the largest free block"),
    COUNTER(PoolStats, allocations, "allocations served"),
    COUNTER(PoolStats, frees, "frees"),
    COUNTER(PoolStats, failures, "allocations refused"),
    COUNTER(PoolStats, blocked, "allocations that waited for memory"),
    COUNTER(PoolStats, stream_waits, "waits of a stream for another one"),
    COUNTER(PoolStats, event_records, "events recorded"),
    COUNTER(PoolStats, growths, "times the pool took memory from the device"),
    COUNTER(PoolStats, remaps, "requests for which free memory was moved"),
    COUNTER(PoolStats, remapped_bytes, "bytes moved for them"),
    COUNTER(PoolStats, planned, "requests served at their planned offsets"),
    COUNTER(PoolStats, deviations, "requests that a plan did not foresee, or that did not come"),
    COUNTER(PoolStats, plans, "plans made"),
    COUNTER(PoolStats, iterations, "iterations seen"),
    GAUGE(PoolStats, peak_budget_bytes, "most bytes that the pool and its regions held at a time"),
};
constexpr std::array kRegionFields = {
    GAUGE(RegionStats, live_bytes, "bytes of live allocations of the region"),
    GAUGE(RegionStats, live_count, "live allocations of the region"),
    GAUGE(RegionStats, reserved_bytes, "bytes of the device that the region holds"),
    GAUGE(RegionStats, host_bytes, "bytes of page-locked memory for contents"),
    GAUGE(RegionStats, stored_bytes, "bytes of contents that sleep compressed or in a file"),
    COUNTER(RegionStats, pauses, "pauses of the region so far"),
    COUNTER(RegionStats, resumes, "resumes of the region so far"),
    COUNTER(RegionStats, copied_out_bytes, "bytes that pauses copied to the host so far"),
    COUNTER(RegionStats, copied_in_bytes, "bytes that resumes copied back so far"),
    GAUGE(RegionStats, kept_bytes, "bytes of contents of the region, while it sleeps"),
    COUNTER(RegionStats, blocked, "requests of the region that had to wait so far"),
};
#undef COUNTER
#undef GAUGE

template <typename ValueOf>
void AddRegions(MetricFamily family, const std::vector<PoolFigures>& pools, ValueOf value_of) {
  for (const PoolFigures& pool : pools) {
    for (const RegionStats& region : pool.regions) {
      family.Add(pool.labels, "region", region.tag, value_of(region));
    }
  }
}

}  // namespace

std::string ToString(const PoolStats& stats) {
  using text::Count;
  using text::Size;
  std::string table = absl::StrCat(
      "live      ", Size(stats.live_bytes), " in ", Count(stats.live_count, "allocation"),
      ", peak ", Size(stats.peak_live_bytes), "\nreserved  ", Size(stats.reserved_bytes), ", peak ",
      Size(stats.peak_reserved_bytes), ", budget ", Size(stats.max_bytes), "\nfree      ",
      Size(stats.free_bytes), ", largest hole ", Size(stats.largest_hole_bytes), "\nrequests  ",
      Count(stats.allocations, "allocation"), ", ", Count(stats.frees, "free"), ", ",
      stats.failures, " refused, ", stats.blocked, " waited for memory\ndevice    ",
      Count(stats.growths, "growth"), ", ", Count(stats.remaps, "remap"), ", ",
      Count(stats.stream_waits, "stream wait"), ", ", Count(stats.event_records, "event"), "\n");
  if (stats.planned + stats.deviations + stats.plans > 0) {
    absl::StrAppend(&table, "planned   ", Count(stats.planned, "request"), ", ",
                    Count(stats.deviations, "deviation"), ", ", Count(stats.plans, "plan"), "\n");
  }
  return table;
}

std::string MetricsText(const std::vector<PoolFigures>& pools) {
  std::string text;
  for (const auto& field : kPoolFields) {
    MetricFamily family(field.name, field.kind, field.help, text);
    for (const PoolFigures& pool : pools) family.Add(pool.labels, pool.stats.*field.member);
  }
  AddRegions({"region_is_asleep", MetricKind::kGauge, "1 while the region sleeps", text}, pools,
             [](const RegionStats& region) { return region.is_asleep ? 1 : 0; });
  for (const auto& field : kRegionFields) {
    AddRegions({absl::StrCat("region_", field.name), field.kind, field.help, text}, pools,
               [&field](const RegionStats& region) { return region.*field.member; });
  }
  return text;
}

}  // namespace tidepool
