// SPDX-License-Identifier: Apache-2.0
// Recorded settings: those that a snapshot holds, and those that its addresses show.
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/trace/caching_allocator/recorded_padding.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {
namespace {

// Changes `settings` by a text in the syntax of PYTORCH_CUDA_ALLOC_CONF. Skips a text with a value
// that the model does not know, such as one of a newer PyTorch.
void Apply(const std::string& text, CachingAllocatorSettings& settings) {
  const auto parsed = ParseCachingAllocatorSettings(text, settings);
  if (parsed.ok()) settings = *parsed;
}

// Takes a field of a snapshot's `allocator_settings`. They hold PyTorch's own view: bytes, and -1
// for no limit.
void Take(const TraceSetting& setting, CachingAllocatorSettings& settings) {
  std::int64_t bytes = 0;
  if (setting.name == "max_split_size") {
    if (absl::SimpleAtoi(setting.value, &bytes) && bytes > 0) {
      const std::int64_t mib = bytes / CachingAllocatorSettings::kMiB;
      Apply(absl::StrCat("max_split_size_mb:", mib), settings);
    }
  } else if (setting.name == "roundup_power2_divisions") {
    Apply(absl::StrCat(setting.name, ":[", setting.value, "]"), settings);
  } else if (setting.name == "garbage_collection_threshold" ||
             setting.name == "expandable_segments") {
    Apply(absl::StrCat(setting.name, ":", setting.value), settings);
  }
}

}  // namespace

CachingAllocatorSettings RecordedCachingSettings(const Trace& trace) {
  CachingAllocatorSettings settings;
  for (const TraceSetting& setting : trace.allocator_settings) {
    if (setting.name == "PYTORCH_CUDA_ALLOC_CONF" || setting.name == "PYTORCH_ALLOC_CONF")
      Apply(setting.value, settings);
  }
  for (const TraceSetting& setting : trace.allocator_settings) Take(setting, settings);
  settings.padding_bytes = caching_allocator::FindPadding(trace, settings);
  return settings;
}

}  // namespace tidepool
