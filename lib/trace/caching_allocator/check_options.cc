// SPDX-License-Identifier: Apache-2.0
// Checks: the limits that PyTorch sets, and those that keep sums below 2^63.
#include "lib/trace/caching_allocator/check_options.h"

#include <bit>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/trace/caching_allocator/rounding.h"

namespace tidepool::caching_allocator {
namespace {

constexpr std::int64_t kLeastSplitBytes = 20 * kMiB;
constexpr std::int64_t kMostSegmentBytes = 1024 * kMiB;
constexpr std::int64_t kMostDivisions = std::int64_t{1} << 30;

absl::Status CheckMiB(absl::string_view name, std::int64_t bytes, std::int64_t least,
                      std::int64_t most) {
  if (bytes >= least && bytes <= most && bytes % kMiB == 0) return absl::OkStatus();
  const std::string value =
      bytes % kMiB == 0 ? absl::StrCat(bytes / kMiB, " MiB") : absl::StrCat(bytes, " bytes");
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", value, ", expected ", least / kMiB, " to ", most / kMiB, " MiB"));
}

absl::Status CheckShare(absl::string_view name, double share) {
  if (share >= 0 && share <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", share, ", expected 0 to 1"));
}

absl::Status CheckDivisions(const CachingAllocatorSettings& settings) {
  for (const std::int64_t divisions : settings.roundup_power2_divisions) {
    if (divisions == 0) continue;
    if (divisions > 0 && divisions <= kMostDivisions &&
        std::has_single_bit(static_cast<std::uint64_t>(divisions))) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("roundup_power2_divisions: ", divisions,
                                                   ", expected 0 or a power of two up to ",
                                                   kMostDivisions));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSettings(const CachingAllocatorSettings& settings) {
  const absl::Status checks[] = {
      CheckMiB("max_split_size_mb", settings.max_split_bytes, kLeastSplitBytes, kMostCachingMemory),
      CheckMiB("max_non_split_rounding_mb", settings.max_non_split_rounding_bytes, kLeastSplitBytes,
               kMostCachingMemory),
      CheckMiB("large_segment_size_mb", settings.large_segment_bytes, kLeastOwnSegment,
               kMostSegmentBytes),
      CheckShare("garbage_collection_threshold", settings.garbage_collection_threshold),
      CheckShare("per_process_memory_fraction", settings.memory_fraction),
      CheckDivisions(settings),
  };
  for (const absl::Status& status : checks) {
    if (!status.ok()) return status;
  }
  if (settings.padding_bytes >= 0 && settings.padding_bytes <= kGrain) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("padding: ", settings.padding_bytes, " bytes, expected 0 to ", kGrain));
}

absl::Status CheckMemory(std::int64_t memory_bytes) {
  if (memory_bytes >= 0 && memory_bytes <= kMostCachingMemory) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a memory of ", memory_bytes, " bytes, expected 0 to ", kMostCachingMemory));
}

}  // namespace tidepool::caching_allocator
