// SPDX-License-Identifier: Apache-2.0
#include "bindings/support/values.h"

#include <array>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace tidepool::bindings {
namespace {

struct Unit {
  std::string_view name;
  int shift;
};
constexpr std::array<Unit, 4> kUnits = {{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Parses a number without sign, exponent, blanks or names such as "nan".
std::optional<double> ParseDecimal(std::string_view text) {
  double value = 0;
  if (text.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  if (!absl::SimpleAtod(absl::string_view(text.data(), text.size()), &value)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<bool> ParseSwitch(std::string_view text) {
  if (text == "0") return false;
  if (text == "1") return true;
  return std::nullopt;
}

std::optional<double> ParseFraction(std::string_view text) {
  const std::optional<double> value = ParseDecimal(text);
  if (!value.has_value() || *value > 1) return std::nullopt;
  return value;
}

std::optional<std::int64_t> ParseBytes(std::string_view text) {
  int shift = 0;
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    shift = unit.shift;
    text.remove_suffix(unit.name.size());
    break;
  }
  std::int64_t value = 0;
  if (!IsDigits(text) || !absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &value) ||
      value == 0 || value > std::numeric_limits<std::int64_t>::max() >> shift) {
    return std::nullopt;
  }
  return value << shift;
}

std::optional<double> ParsePercent(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  const std::optional<double> value = ParseDecimal(text);
  if (!value.has_value() || *value <= 0 || *value > 100) return std::nullopt;
  return *value / 100;
}

std::optional<absl::Duration> ParseWait(std::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(absl::string_view(text.data(), text.size()), &duration) ||
      duration <= absl::ZeroDuration()) {
    return std::nullopt;
  }
  return duration;
}

}  // namespace tidepool::bindings
