// SPDX-License-Identifier: Apache-2.0
// Recorded settings: those that a snapshot holds, and those that its addresses show.
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/trace/caching_allocator/rounding.h"
#include "lib/trace/model/address_text.h"
#include "tidepool/trace/caching_allocator.h"
#include "tidepool/trace/trace.h"

namespace tidepool::caching_allocator {
namespace {

constexpr std::int64_t kPadding = 32;  // torch_npu's kernels read beyond the end of a request

// Live blocks with padding, by address.
class PaddedBlocks {
 public:
  explicit PaddedBlocks(const CachingAllocatorSettings& settings)
      : plain_(settings), padded_(settings) {
    padded_.padding_bytes = kPadding;
  }

  // Returns false if the block overlaps another.
  bool Add(std::uint64_t address, std::int64_t bytes) {
    const auto size = static_cast<std::uint64_t>(BlockBytes(bytes, padded_));
    const bool is_larger = BlockBytes(bytes, plain_) < BlockBytes(bytes, padded_);
    const auto next = live_.lower_bound(address);
    if (next != live_.end()) {
      if (next->first - address < size) return false;
      is_seen_ |= is_larger && next->first - address == size;
    }
    if (next != live_.begin()) {
      const auto& [begin, block] = *std::prev(next);
      if (address - begin < block.size) return false;
      is_seen_ |= block.is_larger && address - begin == block.size;
    }
    live_.insert(next, {address, {size, is_larger}});
    return true;
  }
  void Remove(std::uint64_t address) { live_.erase(address); }

  // Whether a block with padding, which would be smaller without, ends where another begins.
  bool is_seen() const { return is_seen_; }

 private:
  struct Padded {
    std::uint64_t size;
    bool is_larger;
  };

  CachingAllocatorSettings plain_;
  CachingAllocatorSettings padded_;
  absl::btree_map<std::uint64_t, Padded> live_;
  bool is_seen_ = false;
};

// Returns 32, as in torch_npu, if blocks with this padding lie side by side, never overlap, and
// some of them are larger than blocks without it; else 0. O(events log live).
std::int64_t FindPadding(const Trace& trace, const CachingAllocatorSettings& settings) {
  if (trace.original_format != TraceFormat::kPyTorchSnapshot) return 0;
  PaddedBlocks blocks(settings);
  for (const TraceEvent& event : trace.events) {
    if (!event.TouchesMemory()) continue;
    std::uint64_t address = 0;
    if (!trace::ParseAddress(trace.allocation_ids[event.index], &address)) continue;
    if (event.kind == TraceEvent::Kind::kFree) {
      blocks.Remove(address);
    } else if (!blocks.Add(address, trace.allocations[event.index].bytes)) {
      return 0;
    }
  }
  return blocks.is_seen() ? kPadding : 0;
}

}  // namespace
}  // namespace tidepool::caching_allocator

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
