// SPDX-License-Identifier: Apache-2.0
// Prints values with units, and tables.
#include "trace_replay/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tidepool::tool {

namespace {

constexpr std::array<std::pair<const char*, int>, 5> kUnits = {
    {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}}};

// The number of code points: tables hold a few characters beyond ASCII.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string SizeText(std::int64_t bytes) {
  for (const auto& [unit, shift] : kUnits) {
    if (bytes < (std::int64_t{1} << shift) || shift == 0) continue;
    return absl::StrFormat("%.1f %s", std::ldexp(static_cast<double>(bytes), -shift), unit);
  }
  return absl::StrCat(bytes, " B");
}

std::string PoolSizeText(std::int64_t bytes) {
  for (const auto& [unit, shift] : kUnits) {
    if (bytes < (std::int64_t{1} << shift) || shift == 0) continue;
    const double tenths = std::ceil(std::ldexp(static_cast<double>(bytes) * 10, -shift));
    return absl::StrFormat("%.1f %s", tenths / 10, unit);
  }
  return SizeText(bytes);
}

std::string RateText(double bytes_per_second) {
  if (std::isinf(bytes_per_second)) return "infinite";
  constexpr std::array<const char*, 5> kRateUnits = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  while (bytes_per_second >= 1000 && unit + 1 < kRateUnits.size()) {
    bytes_per_second /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", bytes_per_second, kRateUnits[unit]);
}

std::string ExactSizeText(std::int64_t bytes) {
  return bytes < 1024 ? absl::StrCat(bytes, " bytes")
                      : absl::StrCat(SizeText(bytes), " (", bytes, " bytes)");
}

std::string CountText(std::int64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string MillisecondsText(double seconds) { return absl::StrFormat("%.3f ms", seconds * 1e3); }

std::string RatioText(double ratio) { return absl::StrFormat("%.3fx", ratio); }

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "   ", i == 0 ? row[i] : padding,
                      i == 0 ? padding : row[i]);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace tidepool::tool
