// Sizes and counts as people read and write them.
#ifndef TIDEPOOL_TRACE_REPLAY_TEXT_H_
#define TIDEPOOL_TRACE_REPLAY_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tidepool::tool {

// "1536", "1.5 GiB": bytes, or a number with KiB, MiB, GiB or TiB. InvalidArgument when it is
// negative, more than 2^62 or no whole number of bytes.
absl::StatusOr<std::int64_t> ParseSize(std::string_view text);

// 1536 -> "1.5 KiB".
std::string SizeText(std::int64_t bytes);
// 1234567 -> "1,234,567".
std::string CountText(std::int64_t count);
// 0.0123456 -> "12.346 ms".
std::string MillisecondsText(double seconds);
// 1.0246 -> "1.025x".
std::string RatioText(double ratio);

// Columns are as wide as their widest cell; the first is aligned left, the others right.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_TEXT_H_
