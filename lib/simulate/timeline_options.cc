// SPDX-License-Identifier: Apache-2.0
// Checks the options of a simulation.
#include "lib/simulate/timeline_options.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/blocks/geometry.h"

namespace tidepool::simulate {
namespace {

constexpr std::int64_t kLargestBoundary = std::int64_t{1} << 30;

bool IsBoundary(std::int64_t alignment) {
  return alignment >= 1 && alignment <= kLargestBoundary &&
         std::has_single_bit(static_cast<std::uint64_t>(alignment));
}

// Also refuses NaN. Sums of times would overflow with slower links.
absl::Status CheckLinkRate(const char* direction, double bytes_per_second) {
  if (bytes_per_second >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a link ", direction, " of ", bytes_per_second,
                                                 " bytes per second, expected at least 1"));
}

}  // namespace

absl::Status CheckTimelineOptions(const TimelineOptions& options) {
  if (!IsBoundary(options.alignment)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "alignment ", options.alignment, ", expected a power of two up to ", kLargestBoundary));
  }
  const std::int64_t most = blocks::MaxArenaBytes(options.alignment);
  if (options.memory_bytes < 0 || options.memory_bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory of ", options.memory_bytes, " bytes, expected 0 to ", most));
  }
  if (options.host_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("host memory of ", options.host_bytes, " bytes, expected 0 or more"));
  }
  if (absl::Status status = CheckLinkRate("out", options.out_bytes_per_second); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckLinkRate("in", options.in_bytes_per_second); !status.ok()) {
    return status;
  }
  const double latency = options.transfer_latency_seconds;
  if (!(latency >= 0 && latency <= kMostTaskSeconds)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a latency of ", latency, " seconds, expected 0 to 10^9"));
  }
  if (options.compression_threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.compression_threads, " compression threads, expected 0 or more"));
  }
  return CheckCompressionProfile(options.compression);
}

}  // namespace tidepool::simulate
