// SPDX-License-Identifier: Apache-2.0
// JSON numbers: parses the text of a number without conversion to floating point.
#ifndef TIDEPOOL_LIB_BASE_IO_JSON_NUMBER_H_
#define TIDEPOOL_LIB_BASE_IO_JSON_NUMBER_H_

#include <cstdint>
#include <string_view>

namespace tidepool::io {

// Whether `text`, a number of JSON, is a whole number without point and exponent, and fits.
bool ParseWholeNumber(std::string_view text, std::int64_t* value);
// Parses an address. Addresses above 2^63 may be written as negative numbers.
bool ParseAddressNumber(std::string_view text, std::uint64_t* address);
// Multiplies a decimal fraction, with or without exponent, by 1,000 and rounds to the nearest whole
// number, halves away from zero. Returns false when the result is not within `most` of 0.
// O(length), independent of the exponent.
bool ParseThousandths(std::string_view text, std::int64_t most, std::int64_t* thousandths);

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_JSON_NUMBER_H_
