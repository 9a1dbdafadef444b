// SPDX-License-Identifier: Apache-2.0
// Sizes, rates and times as users write them: a number, and a unit that may be left out. A number
// is decimal, such as "80", "19.4" or "12e9". Units are those of GNU's tools, in any case: K, M, G
// and T, alone or with "i" or "iB", are powers of 1024; KB, MB, GB and TB are powers of 1000.
// Spaces between number and unit are ignored. Errors quote the text and name the expected ones.
#ifndef TIDEPOOL_TRACE_REPLAY_QUANTITY_H_
#define TIDEPOOL_TRACE_REPLAY_QUANTITY_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace tidepool::tool {

// Parses a size in bytes: "1536", "1e9", "19.4GiB", "80G", "8gb". Without a unit the size is whole;
// a fraction of a unit is rounded to bytes. InvalidArgument for a negative size, a size above 2^62
// bytes, and any other text.
absl::StatusOr<std::int64_t> ParseSize(std::string_view text);

// Parses a rate in bytes a second: "12e9", "12GB/s", "16GiB", "infinity". "/s" may be left out.
// "12Gb/s" is refused, because it means bits elsewhere. InvalidArgument unless the rate is more
// than 0.
absl::StatusOr<double> ParseRate(std::string_view text);

// Parses a time in seconds: "0.5", "1e-5", "10us", "1.5 ms", "40m". Units: ns, us, ms, s, m or min,
// h. InvalidArgument unless the time is finite and at least 0.
absl::StatusOr<double> ParseSeconds(std::string_view text);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_QUANTITY_H_
