// SPDX-License-Identifier: Apache-2.0
// Parses and prints values with units.
#include "trace_replay/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tidepool::tool {

namespace {

constexpr std::array<std::pair<const char*, int>, 5> kUnits = {
    {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}}};

constexpr double kLargestSize = 0x1p62;

struct Unit {
  std::string_view name;  // in lower case
  double factor;
};

constexpr std::array<Unit, 14> kSizeUnits = {{{"", 1},
                                              {"b", 1},
                                              {"k", 0x1p10},
                                              {"kib", 0x1p10},
                                              {"m", 0x1p20},
                                              {"mib", 0x1p20},
                                              {"g", 0x1p30},
                                              {"gib", 0x1p30},
                                              {"t", 0x1p40},
                                              {"tib", 0x1p40},
                                              {"kb", 1e3},
                                              {"mb", 1e6},
                                              {"gb", 1e9},
                                              {"tb", 1e12}}};
constexpr std::array<Unit, 5> kTimeUnits = {
    {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};

struct Quantity {
  std::string number;
  double factor = 1;
};

// Splits "12 GiB" into the number before the unit and the unit's factor. Nothing for an unknown
// unit.
template <std::size_t N>
std::optional<Quantity> SplitUnit(std::string_view text, const std::array<Unit, N>& units) {
  const std::size_t last = text.find_last_of("0123456789.");
  const std::size_t digits = last == std::string_view::npos ? 0 : last + 1;
  std::string unit(text.substr(digits));
  absl::StripAsciiWhitespace(&unit);
  absl::AsciiStrToLower(&unit);
  for (const auto& [name, factor] : units) {
    if (unit == name) return Quantity{std::string(text.substr(0, digits)), factor};
  }
  return std::nullopt;
}

// The number of code points: tables hold a few characters beyond ASCII.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Quoted(std::string_view text) {
  return absl::StrCat("'", absl::CHexEscape({text.data(), text.size()}), "'");
}

bool IsDecimal(std::string_view number) {
  return !number.empty() && number.find_first_not_of("0123456789.") == std::string_view::npos;
}

absl::Status NotARate(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text),
                   " is not a rate, expected bytes a second, more than 0, such as "
                   "12e9, 12GB/s or 16GiB/s"));
}

}  // namespace

absl::StatusOr<std::int64_t> ParseSize(std::string_view text) {
  const std::optional<Quantity> quantity = SplitUnit(text, kSizeUnits);
  if (quantity.has_value() && IsDecimal(quantity->number)) {
    const auto factor = static_cast<std::int64_t>(quantity->factor);
    constexpr auto kLargest = static_cast<std::int64_t>(kLargestSize);
    std::int64_t whole = 0;
    if (absl::SimpleAtoi(quantity->number, &whole) && whole <= kLargest / factor) {
      return whole * factor;
    }
    double fraction = 0;
    if (factor > 1 && absl::SimpleAtod(quantity->number, &fraction) &&
        fraction * quantity->factor <= kLargestSize) {
      return std::llround(fraction * quantity->factor);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(text), " is not a size, expected bytes, or a number with KiB, MiB, GiB or TiB"));
}

absl::StatusOr<double> ParseRate(std::string_view text) {
  const std::string amount(text.ends_with("/s") ? text.substr(0, text.size() - 2) : text);
  double rate = 0;
  if (absl::SimpleAtod(amount, &rate))
    return rate > 0 ? absl::StatusOr<double>(rate) : NotARate(text);
  const std::optional<Quantity> quantity = SplitUnit(amount, kSizeUnits);
  if (!quantity.has_value() || !absl::SimpleAtod(quantity->number, &rate)) return NotARate(text);
  rate *= quantity->factor;
  return rate > 0 ? absl::StatusOr<double>(rate) : NotARate(text);
}

absl::StatusOr<double> ParseSeconds(std::string_view text) {
  const std::optional<Quantity> quantity = SplitUnit(text, kTimeUnits);
  double seconds = 0;
  if (quantity.has_value() && absl::SimpleAtod(quantity->number, &seconds)) {
    seconds *= quantity->factor;
    if (seconds >= 0 && std::isfinite(seconds)) return seconds;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text),
                   " is not a time, expected seconds, at least 0, or a number with "
                   "ns, us, ms or s"));
}

std::string SizeText(std::int64_t bytes) {
  for (const auto& [unit, shift] : kUnits) {
    if (bytes < (std::int64_t{1} << shift) || shift == 0) continue;
    return absl::StrFormat("%.1f %s", std::ldexp(static_cast<double>(bytes), -shift), unit);
  }
  return absl::StrCat(bytes, " B");
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
