// SPDX-License-Identifier: Apache-2.0
// Times as Chrome traces write them: microseconds with up to three decimals.
#ifndef TIDEPOOL_LIB_BASE_IO_MICROSECONDS_H_
#define TIDEPOOL_LIB_BASE_IO_MICROSECONDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace tidepool::io {

// Returns `nanoseconds` as the text of a number of microseconds.
inline std::string Microseconds(std::int64_t nanoseconds) {
  const std::uint64_t size = nanoseconds < 0 ? 0 - static_cast<std::uint64_t>(nanoseconds)
                                             : static_cast<std::uint64_t>(nanoseconds);
  std::string text = absl::StrCat(nanoseconds < 0 ? "-" : "", size / 1000);
  if (size % 1000 != 0) absl::StrAppend(&text, ".", absl::Dec(size % 1000, absl::kZeroPad3));
  return text;
}

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_MICROSECONDS_H_
