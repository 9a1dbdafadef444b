// SPDX-License-Identifier: Apache-2.0
// Recorded padding: places the blocks of a trace at their recorded addresses.
#include "lib/trace/caching_allocator/recorded_padding.h"

#include <iterator>

#include "absl/container/btree_map.h"
#include "lib/trace/caching_allocator/rounding.h"
#include "lib/trace/model/address_text.h"

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
    live_[address] = {size, is_larger};
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

}  // namespace

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

}  // namespace tidepool::caching_allocator
