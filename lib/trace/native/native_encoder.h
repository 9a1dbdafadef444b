// SPDX-License-Identifier: Apache-2.0
// Native encoder: writes events as the bytes of a native trace (docs/formats/native_trace.md). The
// trace writer and the recorder use it.
#ifndef TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_ENCODER_H_
#define TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_ENCODER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/trace/native/native_format.h"
#include "tidepool/placement.h"
#include "tidepool/trace/trace.h"

namespace tidepool::native {

class NativeEncoder {
 public:
  // Time of an event, and the numbers of its stream's and thread's names.
  struct Context {
    std::int64_t time = 0;
    std::uint32_t stream = 0;
    std::uint32_t thread = 0;
  };

  // Encodes the file header. `alignment` must satisfy IsAlignment.
  NativeEncoder(std::int64_t alignment, TraceFormat original_format);

  // Declares that all later addresses are multiples of 2^shift, so that they take fewer bytes.
  void SetAddressShift(int shift);

  // Encode names. Each kind is numbered 0, 1, 2, ... separately. A name has at most kLongestText
  // bytes.
  void StreamName(std::string_view name) { Name(Item::kStreamName, name); }
  void ThreadName(std::string_view name) { Name(Item::kThreadName, name); }
  void MarkName(std::string_view name) { Name(Item::kMarkName, name); }
  void FrameText(std::string_view text) { Name(Item::kFrameText, text); }
  // Encodes the name of the next region, 1, 2, 3, ...: 1 to kMostRegionNameBytes bytes.
  void RegionName(std::string_view name) { Name(Item::kMarkName, name, native::kRegionName); }
  // Encodes the next frame, with tag 1, 2, 3, ...; its texts and its caller must have been encoded
  // before.
  void Frame(const TraceFrame& frame);

  void Allocate(const Context& context, std::uint64_t address, const TraceAllocation& allocation);
  void AllocateText(const Context& context, std::string_view id, const TraceAllocation& allocation);
  // Encodes the free of the live allocation with this number.
  void Free(const Context& context, std::uint64_t allocation);
  void Mark(const Context& context, std::uint32_t name);
  void MarkEnd(const Context& context, std::uint32_t name);
  void Failure(const Context& context, const TraceFailure& failure);
  void Wait(const Context& context, std::uint32_t awaited);
  void Reserve(const Context& context, const TraceReservation& reservation);
  // Encode a pause of a region that is awake, and the resume of one that sleeps.
  void Pause(const Context& context, const TracePause& pause);
  void Resume(const Context& context, TraceRegion region);

  void UnmatchedFrees(std::int64_t count) { Count(Item::kUnmatchedFrees, count); }
  void SkippedRows(std::int64_t count) { Count(Item::kSkippedRows, count); }
  void EarlierAllocations(std::int64_t count) { Count(Item::kSkippedRows, count, kEarlier); }
  // Name and value have at most kLongestText bytes together.
  void Setting(const TraceSetting& setting);

  // Encodes a device of the trace; `is_own` marks the device that owns the memory.
  void Device(std::int32_t device, bool is_own);

  // Closes the block, so that all events so far are readable once it is in the file.
  void EndBlock();
  // Encodes the end of the trace.
  void End(bool ended_early, bool has_history = true);

  // Complete blocks since the last Clear; before the first Clear, the file header too.
  std::string_view output() const { return {output_.data(), block_begin_}; }
  void Clear();

  std::uint64_t allocations() const { return allocations_; }

 private:
  class ItemBytes;

  void BeginEvent(ItemBytes& bytes, Item item, unsigned flags, const Context& context,
                  bool has_stream);
  void SetTagAndRegion(const TraceAllocation& allocation);
  void Sleep(const Context& context, TraceRegion region, unsigned mode);
  void Name(Item item, std::string_view name, unsigned flags = 0);
  void Count(Item item, std::int64_t count, unsigned flags = 0);
  void Append(const ItemBytes& bytes, std::string_view text = {});
  void OpenBlock();

  std::string output_;
  std::size_t block_begin_ = 0;
  bool block_is_open_ = false;
  int address_shift_ = 0;
  std::uint64_t allocations_ = 0;
  // Values of the previous item, from which the next item's differences are computed.
  Context last_;
  std::uint64_t last_address_ = 0;
  TraceTag last_tag_ = 0;
  TraceRegion last_region_ = 0;
};

}  // namespace tidepool::native

#endif  // TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_ENCODER_H_
