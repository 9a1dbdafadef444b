// SPDX-License-Identifier: Apache-2.0
// Sizes, rates, times and counts as text: read from the command line, and printed.
#ifndef TIDEPOOL_TRACE_REPLAY_TEXT_H_
#define TIDEPOOL_TRACE_REPLAY_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tidepool::tool {

// Parses a size in bytes: "1536", "19.4GiB", "1G", "8gb". Units are case-insensitive: KiB (or K),
// MiB, GiB and TiB are powers of 1024, KB, MB, GB and TB powers of 1000. A fraction of a unit is
// rounded to whole bytes. InvalidArgument for a negative size, a size above 2^62, a fraction of
// bytes without a unit, and any other text.
absl::StatusOr<std::int64_t> ParseSize(std::string_view text);

// Parses a rate in bytes a second: "12e9", "12GB/s", "16GiB", "infinity". Units are those of
// ParseSize; "/s" may be left out. InvalidArgument unless the rate is more than 0.
absl::StatusOr<double> ParseRate(std::string_view text);

// Parses a time in seconds: "0.5", "1e-5", "10us", "250 ms". Units: ns, us, ms, s.
// InvalidArgument unless the time is finite and at least 0.
absl::StatusOr<double> ParseSeconds(std::string_view text);

// 1536 -> "1.5 KiB".
std::string SizeText(std::int64_t bytes);
// 1234567 -> "1,234,567".
std::string CountText(std::int64_t count);
// 0.0123456 -> "12.346 ms".
std::string MillisecondsText(double seconds);
// 1.0246 -> "1.025x".
std::string RatioText(double ratio);

// Returns a table in which each column is as wide as its widest cell. Cells of the first column are
// aligned left, all other cells right.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TEXT_H_
