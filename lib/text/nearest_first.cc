// SPDX-License-Identifier: Apache-2.0
#include "lib/text/nearest_first.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace tidepool::text {
namespace {

// Returns the edits between two names: Wagner and Fischer, "The String-to-String Correction
// Problem", Journal of the ACM 21, 1974.
std::size_t EditsBetween(absl::string_view from, absl::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char letter : from) {
    std::size_t before = row[0]++;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, above + 1, before + (letter == to[j] ? 0 : 1)});
      before = above;
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> NearestFirst(absl::string_view name, std::vector<std::string> names) {
  constexpr std::size_t kMostCharacters = 100;
  const absl::string_view start = name.substr(0, kMostCharacters);
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return EditsBetween(start, a) < EditsBetween(start, b);
  });
  return names;
}

}  // namespace tidepool::text
