// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/metrics.h"

#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "bindings/c/statistics.h"

namespace tidepool::c_api {
namespace {

template <typename Statistics>
struct Field {
  const char* name;
  const char* help;
  bool is_counter;
  std::size_t Statistics::*member;
};
constexpr std::array<Field<tidepool_owner_statistics>, 5> kOwnerFields = {{
    {"live_bytes", "bytes that the owner has", false, &tidepool_owner_statistics::live_bytes},
    {"live_count", "allocations that the owner has", false, &tidepool_owner_statistics::live_count},
    {"peak_live_bytes", "most bytes that the owner had at a time", false,
     &tidepool_owner_statistics::peak_live_bytes},
    {"allocations", "allocations of the owner so far", true,
     &tidepool_owner_statistics::allocations},
    {"frees", "frees of the owner so far", true, &tidepool_owner_statistics::frees},
}};
constexpr std::array<Field<tidepool_region_statistics>, 12> kRegionFields = {{
    {"is_asleep", "1 while the region sleeps", false, &tidepool_region_statistics::is_asleep},
    {"live_bytes", "bytes of live allocations of the region", false,
     &tidepool_region_statistics::live_bytes},
    {"live_count", "live allocations of the region", false,
     &tidepool_region_statistics::live_count},
    {"reserved_bytes", "bytes of the device that the region holds", false,
     &tidepool_region_statistics::reserved_bytes},
    {"host_bytes", "bytes of page-locked memory for contents", false,
     &tidepool_region_statistics::host_bytes},
    {"stored_bytes", "bytes of contents that sleep compressed or in a file", false,
     &tidepool_region_statistics::stored_bytes},
    {"pauses", "pauses of the region so far", true, &tidepool_region_statistics::pauses},
    {"resumes", "resumes of the region so far", true, &tidepool_region_statistics::resumes},
    {"copied_out_bytes", "bytes that pauses copied to the host so far", true,
     &tidepool_region_statistics::copied_out_bytes},
    {"copied_in_bytes", "bytes that resumes copied back so far", true,
     &tidepool_region_statistics::copied_in_bytes},
    {"kept_bytes", "bytes of contents of the region, while it sleeps", false,
     &tidepool_region_statistics::kept_bytes},
    {"blocked", "requests of the region that had to wait so far", true,
     &tidepool_region_statistics::blocked},
}};

// Begins a family, and returns the name of its samples.
std::string Begin(const std::string& name, const char* help, bool is_counter, std::string& text) {
  std::string family = absl::StrCat("tidepool_", name, is_counter ? "_total" : "");
  absl::StrAppend(&text, "# HELP ", family, " ", help, "\n# TYPE ", family, " ",
                  is_counter ? "counter" : "gauge", "\n");
  return family;
}

// Returns a text between the quotes of a label.
std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
}

std::string LabelsOf(const PoolFigures& pool) {
  return absl::StrCat("pool=\"", pool.number, "\",device=\"", Escaped(pool.device), "\"");
}

// Adds the families of figures that each pool has by name, such as those of owners, with `label`.
template <typename Fields, typename Figures>
void AddNamed(const char* label, const Fields& fields, Figures PoolFigures::*figures,
              const std::vector<PoolFigures>& pools, std::string& text) {
  for (const auto& field : fields) {
    const std::string family =
        Begin(absl::StrCat(label, "_", field.name), field.help, field.is_counter, text);
    for (const PoolFigures& pool : pools) {
      for (const auto& [name, statistics] : pool.*figures) {
        absl::StrAppend(&text, family, "{", LabelsOf(pool), ",", label, "=\"", Escaped(name),
                        "\"} ", statistics.*field.member, "\n");
      }
    }
  }
}

}  // namespace

PoolFigures FiguresOf(std::size_t number, CPool& pool) {
  PoolFigures figures;
  figures.number = number;
  figures.device = pool.ordinal() < 0 ? "host" : absl::StrCat("cuda:", pool.ordinal());
  figures.statistics = ToC(pool.pool().Stats());
  tidepool_owner_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  for (std::size_t owner = 1; pool.owners().FillStatistics(owner, statistics).ok(); ++owner) {
    figures.owners.emplace_back(statistics.name, statistics);
  }
  for (const RegionStats& stats : pool.pool().RegionStatistics()) {
    figures.regions.emplace_back(stats.tag, ToC(stats));
  }
  return figures;
}

std::string MetricsText(const std::vector<PoolFigures>& pools) {
  std::string text;
  for (const StatisticsField& field : StatisticsFields()) {
    const std::string family = Begin(field.name, field.help, field.is_counter, text);
    for (const PoolFigures& pool : pools) {
      absl::StrAppend(&text, family, "{", LabelsOf(pool), "} ", pool.statistics.*field.member,
                      "\n");
    }
  }
  AddNamed("owner", kOwnerFields, &PoolFigures::owners, pools, text);
  AddNamed("region", kRegionFields, &PoolFigures::regions, pools, text);
  return text;
}

}  // namespace tidepool::c_api
