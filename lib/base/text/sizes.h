// SPDX-License-Identifier: Apache-2.0
// Sizes and counts in errors. Sizes are for people in the largest binary unit, and in bytes for
// comparisons.
#ifndef TIDEPOOL_LIB_BASE_TEXT_SIZES_H_
#define TIDEPOOL_LIB_BASE_TEXT_SIZES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tidepool::text {

// 896532480 -> "855.0 MiB", 512 -> "512 bytes".
std::string Size(std::int64_t bytes);

// 896532480 -> "855.0 MiB (896532480 bytes)", 512 -> "512 bytes".
std::string ExactSize(std::int64_t bytes);

// 1, "allocation" -> "1 allocation"; 3, "allocation" -> "3 allocations".
std::string Count(std::int64_t count, absl::string_view noun);

}  // namespace tidepool::text

#endif  // TIDEPOOL_LIB_BASE_TEXT_SIZES_H_
