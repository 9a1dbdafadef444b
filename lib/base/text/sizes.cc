// SPDX-License-Identifier: Apache-2.0
// One decimal tells sizes apart that people compare; errors have the bytes beside it.
#include "lib/base/text/sizes.h"

#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace tidepool::text {

std::string Size(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return Count(bytes, "byte");
  double size = static_cast<double>(bytes) / 1024;
  const char* const* unit = std::begin(kUnits);
  // A size that would be printed as 1024.0 is 1.0 of the next unit.
  for (; size >= 1023.95 && unit != std::end(kUnits) - 1; ++unit) size /= 1024;
  // The locale of the program has no say in the decimal point.
  const std::int64_t tenths = std::llround(size * 10);
  return absl::StrCat(tenths / 10, ".", tenths % 10, " ", *unit);
}

std::string ExactSize(std::int64_t bytes) {
  return bytes < 1024 ? Size(bytes) : absl::StrCat(Size(bytes), " (", bytes, " bytes)");
}

std::string Count(std::int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace tidepool::text
