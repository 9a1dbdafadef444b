// SPDX-License-Identifier: Apache-2.0
// Joins neighbouring powers of two until seven classes are left.
#include "trace_replay/report/size_classes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace tidepool::tool {
namespace {

int PowerOf(std::int64_t bytes) { return std::bit_width(static_cast<std::uint64_t>(bytes)) - 1; }

std::string PowerText(int power) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return absl::StrCat(1 << power % 10, " ", kUnits[static_cast<std::size_t>(power / 10)]);
}

struct Group {
  int first;
  int end;
  double weight;
};

}  // namespace

SizeClasses::SizeClasses(const std::vector<Use>& uses) {
  std::array<double, 64> areas = {};
  for (const Use& use : uses) {
    areas[static_cast<std::size_t>(PowerOf(use.bytes))] +=
        static_cast<double>(use.bytes) * static_cast<double>(use.events);
  }
  std::vector<Group> groups;
  for (int power = 0; power < 63; ++power) {
    const double area = areas[static_cast<std::size_t>(power)];
    // The cube root keeps small classes apart: by area alone the large ones would take all colours.
    if (area > 0) groups.push_back({power, power + 1, std::cbrt(area)});
  }
  while (groups.size() > kMost) {
    auto least = groups.begin();
    for (auto i = groups.begin(); i + 1 != groups.end(); ++i) {
      if (i->weight + (i + 1)->weight < least->weight + (least + 1)->weight) least = i;
    }
    *least = {least->first, (least + 1)->end, least->weight + (least + 1)->weight};
    groups.erase(least + 1);
  }
  for (const Group& group : groups) {
    first_powers_.push_back(group.first);
    end_powers_.push_back(group.end);
  }
}

std::size_t SizeClasses::ClassOf(std::int64_t bytes) const {
  const auto after = std::upper_bound(first_powers_.begin(), first_powers_.end(), PowerOf(bytes));
  return after == first_powers_.begin()
             ? 0
             : static_cast<std::size_t>(after - first_powers_.begin() - 1);
}

std::string SizeClasses::Name(std::size_t number) const {
  return absl::StrCat(PowerText(first_powers_[number]), " \xE2\x80\x93 ",
                      PowerText(end_powers_[number]));
}

}  // namespace tidepool::tool
