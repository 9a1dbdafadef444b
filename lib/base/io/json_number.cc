// SPDX-License-Identifier: Apache-2.0
// JSON numbers: parses decimal fractions digit by digit, with the decimal point at a known digit.
#include "lib/base/io/json_number.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

namespace tidepool::io {
namespace {

template <typename Number>
bool ParseAll(std::string_view text, Number* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

bool TakeSign(std::string_view& text) {
  const bool is_negative = !text.empty() && text[0] == '-';
  if (is_negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  return is_negative;
}

constexpr std::int64_t kFarExponent = 1'000'000'000;

// Returns the exponent, limited to +-10^9: larger exponents give the same results.
std::int64_t ParseExponent(std::string_view text) {
  const bool is_negative = TakeSign(text);
  std::int64_t exponent = 0;
  if (!ParseAll(text, &exponent)) exponent = kFarExponent;
  exponent = std::min(exponent, kFarExponent);
  return is_negative ? -exponent : exponent;
}

// Computes digits[0] digits[1] ... times 10^scale, rounded. Returns false above `most`.
bool RoundedValue(std::string_view whole, std::string_view fraction, std::int64_t scale,
                  std::uint64_t most, std::uint64_t* value) {
  const auto digits = static_cast<std::int64_t>(whole.size() + fraction.size());
  const auto digit_at = [&](std::int64_t i) {
    if (i < 0 || i >= digits) return 0;
    const auto at = static_cast<std::size_t>(i);
    return (at < whole.size() ? whole[at] : fraction[at - whole.size()]) - '0';
  };
  const std::int64_t point = static_cast<std::int64_t>(whole.size()) + scale;
  std::int64_t first = 0;
  while (first < digits && digit_at(first) == 0) ++first;
  *value = 0;
  if (first == digits) return true;
  for (std::int64_t i = first; i < point; ++i) {
    const auto digit = static_cast<std::uint64_t>(digit_at(i));
    if (*value > (most - digit) / 10) return false;
    *value = *value * 10 + digit;
  }
  if (digit_at(point) >= 5) ++*value;
  return *value <= most;
}

}  // namespace

bool ParseWholeNumber(std::string_view text, std::int64_t* value) { return ParseAll(text, value); }

bool ParseAddressNumber(std::string_view text, std::uint64_t* address) {
  std::int64_t number = 0;
  if (ParseAll(text, address)) return true;
  if (!ParseAll(text, &number)) return false;
  *address = static_cast<std::uint64_t>(number);
  return true;
}

bool ParseThousandths(std::string_view text, std::int64_t most, std::int64_t* thousandths) {
  const bool is_negative = TakeSign(text);
  std::int64_t scale = 3;
  if (const std::size_t mark = text.find_first_of("eE"); mark != std::string_view::npos) {
    scale += ParseExponent(text.substr(mark + 1));
    text = text.substr(0, mark);
  }
  std::string_view fraction;
  if (const std::size_t point = text.find('.'); point != std::string_view::npos) {
    fraction = text.substr(point + 1);
    text = text.substr(0, point);
  }
  std::uint64_t value = 0;
  if (!RoundedValue(text, fraction, scale, static_cast<std::uint64_t>(most), &value)) return false;
  *thousandths = is_negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
  return true;
}

}  // namespace tidepool::io
