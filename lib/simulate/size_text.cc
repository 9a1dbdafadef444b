// SPDX-License-Identifier: Apache-2.0
// Prints sizes in the largest unit that they fill.
#include "lib/simulate/size_text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace tidepool::simulate {
namespace {

constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};

}  // namespace

std::string SizeText(std::int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >> (10 * (unit + 2)) > 0) ++unit;
  const double size = std::ldexp(static_cast<double>(bytes), -10 * (static_cast<int>(unit) + 1));
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f %s", size, kUnits[unit]);
  return text.data();
}

std::string ExactSizeText(std::int64_t bytes) {
  if (bytes < 1024) return SizeText(bytes);
  return absl::StrCat(SizeText(bytes), " (", bytes, " bytes)");
}

}  // namespace tidepool::simulate
