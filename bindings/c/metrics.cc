// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/metrics.h"

#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "lib/base/text/metric_family.h"

namespace tidepool::c_api {
namespace {

using text::MetricFamily;
using text::MetricKind;

struct OwnerField {
  const char* name;
  MetricKind kind;
  const char* help;
  std::size_t tidepool_owner_statistics::*member;
};
constexpr std::array<OwnerField, 5> kOwnerFields = {{
    {"owner_live_bytes", MetricKind::kGauge, "bytes that the owner has",
     &tidepool_owner_statistics::live_bytes},
    {"owner_live_count", MetricKind::kGauge, "allocations that the owner has",
     &tidepool_owner_statistics::live_count},
    {"owner_peak_live_bytes", MetricKind::kGauge, "most bytes that the owner had at a time",
     &tidepool_owner_statistics::peak_live_bytes},
    {"owner_allocations", MetricKind::kCounter, "allocations of the owner so far",
     &tidepool_owner_statistics::allocations},
    {"owner_frees", MetricKind::kCounter, "frees of the owner so far",
     &tidepool_owner_statistics::frees},
}};

}  // namespace

Figures FiguresOf(std::size_t number, CPool& pool) {
  Figures figures;
  figures.pool.labels = {
      {"pool", absl::StrCat(number)},
      {"device", pool.ordinal() < 0 ? "host" : absl::StrCat("cuda:", pool.ordinal())}};
  figures.pool.stats = pool.pool().Stats();
  figures.pool.regions = pool.pool().RegionStatistics();
  tidepool_owner_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  for (std::size_t owner = 1; pool.owners().FillStatistics(owner, statistics).ok(); ++owner) {
    figures.owners.push_back(statistics);
  }
  return figures;
}

std::string MetricsText(const std::vector<Figures>& pools) {
  std::vector<PoolFigures> of_pools;
  of_pools.reserve(pools.size());
  for (const Figures& figures : pools) of_pools.push_back(figures.pool);
  std::string text = tidepool::MetricsText(of_pools);
  for (const OwnerField& field : kOwnerFields) {
    MetricFamily family(field.name, field.kind, field.help, text);
    for (const Figures& figures : pools) {
      for (const tidepool_owner_statistics& owner : figures.owners) {
        family.Add(figures.pool.labels, "owner", owner.name,
                   static_cast<std::int64_t>(owner.*field.member));
      }
    }
  }
  return text;
}

}  // namespace tidepool::c_api
