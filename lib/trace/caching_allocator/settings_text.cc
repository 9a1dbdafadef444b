// SPDX-License-Identifier: Apache-2.0
// Settings text: settings in the syntax of PYTORCH_CUDA_ALLOC_CONF.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {
namespace {

// Entry i of the list begins at 2^i MiB.
std::string DivisionsText(const std::array<std::int64_t, 16>& divisions) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < divisions.size(); ++i) {
    entries.push_back(absl::StrCat(std::int64_t{1} << i, ":", divisions[i]));
  }
  return absl::StrCat("[", absl::StrJoin(entries, ","), "]");
}

}  // namespace

std::string CachingAllocatorSettingsText(const CachingAllocatorSettings& settings) {
  const CachingAllocatorSettings defaults;
  std::vector<std::string> parts;
  const auto add = [&](const char* key, const auto& value, const auto& base, const auto& text) {
    if (value != base) parts.push_back(absl::StrCat(key, ":", text));
  };
  const auto mib = [](std::int64_t bytes) { return bytes / CachingAllocatorSettings::kMiB; };
  add("expandable_segments", settings.expandable_segments, false, "True");
  add("max_split_size_mb", settings.max_split_bytes, defaults.max_split_bytes,
      mib(settings.max_split_bytes));
  add("max_non_split_rounding_mb", settings.max_non_split_rounding_bytes,
      defaults.max_non_split_rounding_bytes, mib(settings.max_non_split_rounding_bytes));
  add("large_segment_size_mb", settings.large_segment_bytes, defaults.large_segment_bytes,
      mib(settings.large_segment_bytes));
  add("roundup_power2_divisions", settings.roundup_power2_divisions,
      defaults.roundup_power2_divisions, DivisionsText(settings.roundup_power2_divisions));
  add("garbage_collection_threshold", settings.garbage_collection_threshold, 0.0,
      settings.garbage_collection_threshold);
  add("per_process_memory_fraction", settings.memory_fraction, 0.0, settings.memory_fraction);
  add("padding", settings.padding_bytes, 0, settings.padding_bytes);
  return absl::StrJoin(parts, ",");
}

}  // namespace tidepool
