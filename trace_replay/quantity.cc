// SPDX-License-Identifier: Apache-2.0
// One parser of a number and a unit, for quantities of every kind.
#include "trace_replay/quantity.h"

#include <cmath>
#include <span>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tidepool::tool {
namespace {

struct Unit {
  std::string_view name;  // in lower case
  double factor;
};

constexpr Unit kByteUnits[] = {{"", 1},         {"b", 1},    {"k", 0x1p10}, {"ki", 0x1p10},
                               {"kib", 0x1p10}, {"kb", 1e3}, {"m", 0x1p20}, {"mi", 0x1p20},
                               {"mib", 0x1p20}, {"mb", 1e6}, {"g", 0x1p30}, {"gi", 0x1p30},
                               {"gib", 0x1p30}, {"gb", 1e9}, {"t", 0x1p40}, {"ti", 0x1p40},
                               {"tib", 0x1p40}, {"tb", 1e12}};
constexpr Unit kTimeUnits[] = {{"", 1},      {"s", 1},  {"ms", 1e-3}, {"us", 1e-6},
                               {"ns", 1e-9}, {"m", 60}, {"min", 60},  {"h", 3600}};

// A kind of quantity, for its parser and its errors.
struct Kind {
  std::span<const Unit> units;
  const char* noun;
  const char* expected;
};

constexpr Kind kSize = {kByteUnits, "size", "bytes, such as 1048576, 80GiB or 8GB"};
constexpr Kind kRate = {kByteUnits, "rate",
                        "bytes a second, more than 0, such as 12e9, 12GB/s or 16GiB/s"};
constexpr Kind kTime = {kTimeUnits, "time", "seconds, such as 0.5, 10us, 40m or 2h"};

constexpr std::int64_t kLargestSize = std::int64_t{1} << 62;

absl::Status Wrong(std::string_view text, const std::string& reason, const Kind& kind) {
  return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape({text.data(), text.size()}),
                                                 "' ", reason, ", expected ", kind.expected));
}

const Unit* FindUnit(std::string_view name, const Kind& kind) {
  const std::string lower = absl::AsciiStrToLower({name.data(), name.size()});
  for (const Unit& unit : kind.units) {
    if (unit.name == lower) return &unit;
  }
  return nullptr;
}

struct Quantity {
  std::string digits;  // the number as text
  double number;       // beyond the range of doubles: the largest of them
  std::string_view unit;
  double factor;
};

// Takes apart `amount`, which is `text` or a part of it; errors quote `text`.
absl::StatusOr<Quantity> ParseQuantity(std::string_view amount, std::string_view text,
                                       const Kind& kind) {
  if (text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no value, expected ", kind.expected));
  }
  double number = 0;
  const char* const end = amount.data() + amount.size();
  const absl::from_chars_result read = absl::from_chars(amount.data(), end, number);
  std::string_view unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  const Unit* const found = FindUnit(unit, kind);
  // Abseil reads hexadecimal numbers too, in which a unit may be a digit: 0x10B.
  const bool is_hexadecimal = amount.find_first_of("xX") != std::string_view::npos;
  if (read.ec == std::errc::invalid_argument || is_hexadecimal || std::isnan(number) ||
      found == nullptr) {
    return Wrong(text, absl::StrCat("is not a ", kind.noun), kind);
  }
  if (std::signbit(number)) return Wrong(text, "is negative", kind);
  if (read.ec == std::errc::result_out_of_range && number > 1) {
    return Wrong(text, "is too large", kind);
  }
  return Quantity{std::string(amount.data(), read.ptr), number, unit, found->factor};
}

// "Gb" is a billion bits elsewhere.
bool LooksLikeBits(std::string_view unit) {
  return unit.size() >= 2 && unit.ends_with('b') && absl::ascii_isupper(unit.front());
}

}  // namespace

absl::StatusOr<std::int64_t> ParseSize(std::string_view text) {
  const absl::StatusOr<Quantity> size = ParseQuantity(text, text, kSize);
  if (!size.ok()) return size.status();
  if (std::isinf(size->number)) return Wrong(text, "is not a size", kSize);
  if (size->number * size->factor > static_cast<double>(kLargestSize)) {
    return Wrong(text, "is too large", kSize);
  }
  // Doubles are exact up to 2^53 only.
  std::int64_t whole = 0;
  if (absl::SimpleAtoi(size->digits, &whole)) {
    const std::int64_t bytes = whole * static_cast<std::int64_t>(size->factor);
    return bytes <= kLargestSize ? absl::StatusOr<std::int64_t>(bytes)
                                 : Wrong(text, "is too large", kSize);
  }
  if (size->factor == 1 && size->number != std::floor(size->number)) {
    return Wrong(text, "is not a whole number of bytes", kSize);
  }
  return std::llround(size->number * size->factor);
}

absl::StatusOr<double> ParseRate(std::string_view text) {
  const std::string_view amount = text.ends_with("/s") ? text.substr(0, text.size() - 2) : text;
  const absl::StatusOr<Quantity> rate = ParseQuantity(amount, text, kRate);
  if (!rate.ok()) return rate.status();
  if (LooksLikeBits(rate->unit)) return Wrong(text, "reads as bits", kRate);
  const double value = rate->number * rate->factor;
  if (value == 0) return Wrong(text, "is not a rate", kRate);
  if (std::isinf(value) && !std::isinf(rate->number)) return Wrong(text, "is too large", kRate);
  return value;
}

absl::StatusOr<double> ParseSeconds(std::string_view text) {
  const absl::StatusOr<Quantity> time = ParseQuantity(text, text, kTime);
  if (!time.ok()) return time.status();
  if (std::isinf(time->number)) return Wrong(text, "is not a time", kTime);
  return time->number * time->factor;
}

}  // namespace tidepool::tool
