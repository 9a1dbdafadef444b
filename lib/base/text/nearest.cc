// SPDX-License-Identifier: Apache-2.0
// Counts edits row by row of the usual table.
#include "lib/base/text/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace tidepool::text {
namespace {

std::size_t EditsBetween(std::string_view from, std::string_view to) {
  constexpr std::size_t kMostCharacters = 100;
  from = from.substr(0, kMostCharacters);
  std::vector<std::size_t> two_above(to.size() + 1);
  std::vector<std::size_t> above(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(above.begin(), above.end(), 0);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const bool differs = from[i - 1] != to[j - 1];
      row[j] = std::min({row[j - 1] + 1, above[j] + 1, above[j - 1] + (differs ? 1 : 0)});
      const bool swapped =
          i > 1 && j > 1 && differs && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
    std::swap(two_above, above);
    std::swap(above, row);
  }
  return above[to.size()];
}

}  // namespace

std::vector<std::string> NearestFirst(std::string_view name, std::vector<std::string> names) {
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return EditsBetween(name, a) < EditsBetween(name, b);
  });
  return names;
}

std::string Nearest(std::string_view name, const std::vector<std::string>& names) {
  constexpr std::size_t kCharactersAnEdit = 3;
  if (names.empty()) return "";
  std::string nearest = NearestFirst(name, names).front();
  return EditsBetween(name, nearest) * kCharactersAnEdit <= nearest.size() ? nearest : "";
}

}  // namespace tidepool::text
