// SPDX-License-Identifier: Apache-2.0
// Sizes, times and counts as text, and tables of them.
#ifndef TIDEPOOL_TRACE_REPLAY_TEXT_H_
#define TIDEPOOL_TRACE_REPLAY_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tidepool::tool {

// 1536 -> "1.5 KiB".
std::string SizeText(std::int64_t bytes);
// 1537 -> "1.6 KiB": rounded up, so that a pool of the size that is printed is enough.
std::string PoolSizeText(std::int64_t bytes);
// 24e9 -> "24.0 GB/s". An infinite rate is "infinite".
std::string RateText(double bytes_per_second);
// 1536 -> "1.5 KiB (1536 bytes)", for errors that compare sizes.
std::string ExactSizeText(std::int64_t bytes);
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
