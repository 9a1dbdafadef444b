// SPDX-License-Identifier: Apache-2.0
// Checks the options of a simulation.
#include "lib/training/simulate/timeline_options.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/memory/blocks/geometry.h"

namespace tidepool::simulate {
namespace {

constexpr std::int64_t kLargestBoundary = std::int64_t{1} << 30;

bool IsBoundary(std::int64_t alignment) {
  return alignment >= 1 && alignment <= kLargestBoundary &&
         std::has_single_bit(static_cast<std::uint64_t>(alignment));
}

}  // namespace

absl::Status CheckTimelineOptions(const TimelineOptions& options, std::int64_t memory_bytes) {
  if (!IsBoundary(options.alignment)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alignment ", options.alignment, ", expected a power of two up to ", kLargestBoundary));
  }
  const std::int64_t most = blocks::MaxArenaBytes(options.alignment);
  if (memory_bytes < 0 || memory_bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory of ", memory_bytes, " bytes, expected 0 to ", most));
  }
  if (options.compression_threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.compression_threads, " compression threads, expected 0 or more"));
  }
  return CheckCompressionProfile(options.compression);
}

}  // namespace tidepool::simulate
