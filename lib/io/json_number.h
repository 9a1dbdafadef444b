// Numbers as a JSON file spells them, without the detour over floating point.
#ifndef TIDEPOOL_LIB_IO_JSON_NUMBER_H_
#define TIDEPOOL_LIB_IO_JSON_NUMBER_H_

#include <cstdint>
#include <string_view>

namespace tidepool::io {

// Whether `text`, a number of JSON, is a whole one without point and exponent that fits.
bool ParseWholeNumber(std::string_view text, std::int64_t* value);
// An address: those above 2^63 are also spelt as negative numbers.
bool ParseAddressNumber(std::string_view text, std::uint64_t* address);
// A thousand times the number, which is a decimal fraction with or without an exponent, rounded to
// the nearest whole number, halves away from zero. False when that is not within `most` of 0.
// O(length), whatever the exponent.
bool ParseThousandths(std::string_view text, std::int64_t most, std::int64_t* thousandths);

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_IO_JSON_NUMBER_H_
