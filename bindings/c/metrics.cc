// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/metrics.h"

#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "bindings/c/statistics.h"

namespace tidepool::c_api {
namespace {

struct OwnerField {
  const char* name;
  const char* help;
  bool is_counter;
  std::size_t tidepool_owner_statistics::*member;
};
constexpr std::array<OwnerField, 5> kOwnerFields = {{
    {"live_bytes", "bytes that the owner has", false, &tidepool_owner_statistics::live_bytes},
    {"live_count", "allocations that the owner has", false, &tidepool_owner_statistics::live_count},
    {"peak_live_bytes", "most bytes that the owner had at a time", false,
     &tidepool_owner_statistics::peak_live_bytes},
    {"allocations", "allocations of the owner so far", true,
     &tidepool_owner_statistics::allocations},
    {"frees", "frees of the owner so far", true, &tidepool_owner_statistics::frees},
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

void AddOwners(const OwnerField& field, const std::vector<PoolFigures>& pools, std::string& text) {
  const std::string family =
      Begin(absl::StrCat("owner_", field.name), field.help, field.is_counter, text);
  for (const PoolFigures& pool : pools) {
    for (const auto& [owner, statistics] : pool.owners) {
      absl::StrAppend(&text, family, "{", LabelsOf(pool), ",owner=\"", Escaped(owner), "\"} ",
                      statistics.*field.member, "\n");
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
  for (const OwnerField& field : kOwnerFields) AddOwners(field, pools, text);
  return text;
}

}  // namespace tidepool::c_api
