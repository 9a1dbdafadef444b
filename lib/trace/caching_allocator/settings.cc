// SPDX-License-Identifier: Apache-2.0
// Settings: read and written in the syntax of PYTORCH_CUDA_ALLOC_CONF,
// "key:value,key:[number:number,>:number]".
#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/text/quote.h"
#include "lib/trace/caching_allocator/check_options.h"
#include "lib/trace/caching_allocator/rounding.h"
#include "tidepool/trace/caching_allocator.h"

namespace tidepool {
namespace {

using caching_allocator::kMiB;

// Keys that change no sizes of device memory.
constexpr std::string_view kSkipped[] = {
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "graph_capture_record_stream_reuse",
    "throw_on_cudamalloc_oom",
};

// All keys with this beginning are about pinned memory of the host.
constexpr std::string_view kPinned = "pinned_";

bool IsWithoutEffect(std::string_view key) {
  return key.starts_with(kPinned) ||
         std::find(std::begin(kSkipped), std::end(kSkipped), key) != std::end(kSkipped);
}

absl::Status Wrong(std::string_view key, std::string_view value, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(key), ": ", text::Quoted(value),
                                                 ", expected ", std::string(expected)));
}

absl::Status ReadMiB(std::string_view key, std::string_view value, std::int64_t* bytes) {
  std::int64_t number = 0;
  if (!absl::SimpleAtoi({value.data(), value.size()}, &number) || number <= 0) {
    return Wrong(key, value, "a number of MiB");
  }
  *bytes = std::min(number, kMostCachingMemory / kMiB) * kMiB;
  return absl::OkStatus();
}

// Reads a number more than 0 and at most 1.
absl::Status ReadShare(std::string_view key, std::string_view value, double* share) {
  double number = 0;
  if (!absl::SimpleAtod({value.data(), value.size()}, &number) || !(number > 0 && number <= 1)) {
    return Wrong(key, value, "a number from 0 to 1, not 0");
  }
  if (number == 1 && key == "garbage_collection_threshold") {
    return Wrong(key, value, "a number between 0 and 1, as PyTorch does");
  }
  *share = number;
  return absl::OkStatus();
}

absl::Status ReadBool(std::string_view key, std::string_view value, bool* truth) {
  if (value != "True" && value != "False") return Wrong(key, value, "True or False");
  *truth = value == "True";
  return absl::OkStatus();
}

class Divisions {
 public:
  explicit Divisions(std::array<std::int64_t, 16>& divisions) : divisions_(divisions) {}

  absl::Status Read(std::string_view value) {
    if (value.empty() || value.front() != '[') return ReadAll(value);
    if (value.back() != ']') return Refuse(value);
    const absl::string_view entries(value.data() + 1, value.size() - 2);
    for (const absl::string_view entry : absl::StrSplit(entries, ',', absl::SkipEmpty())) {
      absl::Status status = ReadEntry({entry.data(), entry.size()});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Refuse(std::string_view value) {
    return Wrong("roundup_power2_divisions", value,
                 "a power of two, or a list such as [256:1,512:2,>:8]");
  }

  absl::Status ReadAll(std::string_view value) {
    const std::optional<std::int64_t> number = Number(value);
    if (!number.has_value()) return Refuse(value);
    divisions_.fill(*number);
    return absl::OkStatus();
  }

  // Reads "MIB:DIVISIONS" or ">:DIVISIONS".
  absl::Status ReadEntry(std::string_view entry) {
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) return Refuse(entry);
    const std::string_view from = entry.substr(0, colon);
    const std::optional<std::int64_t> number = Number(entry.substr(colon + 1));
    if (!number.has_value()) return Refuse(entry);
    if (from == ">") {
      std::fill(divisions_.begin() + last_ + 1, divisions_.end(), *number);
      return absl::OkStatus();
    }
    const std::optional<std::int64_t> mib = Number(from);
    if (!mib.has_value() || *mib == 0) return Refuse(entry);
    Set(std::min<int>(std::countr_zero(static_cast<std::uint64_t>(*mib)), 15), *number);
    return absl::OkStatus();
  }

  // The first entry also holds for all smaller sizes.
  void Set(int index, std::int64_t number) {
    if (is_first_) std::fill(divisions_.begin(), divisions_.begin() + index, number);
    is_first_ = false;
    divisions_[static_cast<std::size_t>(index)] = number;
    last_ = index;
  }

  // Returns 0 or a power of two.
  static std::optional<std::int64_t> Number(std::string_view text) {
    std::int64_t number = 0;
    if (!absl::SimpleAtoi({text.data(), text.size()}, &number) || number < 0) return std::nullopt;
    if (number > 0 && !std::has_single_bit(static_cast<std::uint64_t>(number))) return std::nullopt;
    return number;
  }

  std::array<std::int64_t, 16>& divisions_;
  int last_ = 0;
  bool is_first_ = true;
};

absl::Status ReadKey(std::string_view key, std::string_view value,
                     CachingAllocatorSettings& settings) {
  if (key == "max_split_size_mb") return ReadMiB(key, value, &settings.max_split_bytes);
  if (key == "max_non_split_rounding_mb")
    return ReadMiB(key, value, &settings.max_non_split_rounding_bytes);
  if (key == "large_segment_size_mb") return ReadMiB(key, value, &settings.large_segment_bytes);
  if (key == "garbage_collection_threshold")
    return ReadShare(key, value, &settings.garbage_collection_threshold);
  if (key == "per_process_memory_fraction") return ReadShare(key, value, &settings.memory_fraction);
  if (key == "expandable_segments") return ReadBool(key, value, &settings.expandable_segments);
  if (key == "roundup_power2_divisions")
    return Divisions(settings.roundup_power2_divisions).Read(value);
  if (key == "backend") {
    return value == "native"
               ? absl::OkStatus()
               : Wrong(key, value, "native: only PyTorch's own allocator is modelled");
  }
  if (IsWithoutEffect(key)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown key ", text::Quoted(key),
      ", expected max_split_size_mb, max_non_split_rounding_mb, large_segment_size_mb, "
      "roundup_power2_divisions, garbage_collection_threshold, per_process_memory_fraction, "
      "expandable_segments, or another key of PYTORCH_CUDA_ALLOC_CONF"));
}

// Returns the length of the entry at the beginning of `text`: up to a comma outside of brackets.
std::size_t EntryLength(std::string_view text) {
  bool is_in_list = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') is_in_list = true;
    if (text[i] == ']') is_in_list = false;
    if (text[i] == ',' && !is_in_list) return i;
  }
  return text.size();
}

std::string WithoutSpaces(std::string_view text) {
  std::string compact(text);
  std::erase_if(compact, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
  return compact;
}

// Entry i of the list begins at 2^i MiB.
std::string DivisionsText(const std::array<std::int64_t, 16>& divisions) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < divisions.size(); ++i) {
    entries.push_back(absl::StrCat(std::int64_t{1} << i, ":", divisions[i]));
  }
  return absl::StrCat("[", absl::StrJoin(entries, ","), "]");
}

}  // namespace

std::vector<std::string> CachingAllocatorKeysWithoutEffect(std::string_view text) {
  const std::string compact = WithoutSpaces(text);
  std::vector<std::string> keys;
  std::string_view rest = compact;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, EntryLength(rest));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::string_view key = entry.substr(0, entry.find(':'));
    if (IsWithoutEffect(key)) keys.emplace_back(key);
  }
  return keys;
}

absl::StatusOr<CachingAllocatorSettings> ParseCachingAllocatorSettings(
    std::string_view text, const CachingAllocatorSettings& base) {
  const std::string compact = WithoutSpaces(text);
  CachingAllocatorSettings settings = base;
  std::string_view rest = compact;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, EntryLength(rest));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(text::Quoted(entry), " has no value, expected key:value"));
    }
    absl::Status status = ReadKey(entry.substr(0, colon), entry.substr(colon + 1), settings);
    if (!status.ok()) return status;
  }
  if (absl::Status status = caching_allocator::CheckSettings(settings); !status.ok()) return status;
  return settings;
}

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
