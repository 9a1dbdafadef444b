// Events as the bytes of a native trace, docs/formats/native_trace.md. What writes traces and what
// records them both use it.
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
  // Where and when an event happened; streams and threads by the number of their name.
  struct Context {
    std::int64_t time = 0;
    std::uint32_t stream = 0;
    std::uint32_t thread = 0;
  };

  // Begins with the header. `alignment` satisfies IsAlignment.
  NativeEncoder(std::int64_t alignment, TraceFormat original_format);

  // From here on addresses are multiples of 2^shift: then they take fewer bytes.
  void SetAddressShift(int shift);

  // Names are numbered 0, 1, 2, ... each kind by itself, and hold at most kLongestText
  // bytes.
  void StreamName(std::string_view name) { Name(Item::kStreamName, name); }
  void ThreadName(std::string_view name) { Name(Item::kThreadName, name); }
  void MarkName(std::string_view name) { Name(Item::kMarkName, name); }
  void FrameText(std::string_view text) { Name(Item::kFrameText, text); }
  // The next frame, tag 1, 2, 3, ...; its texts and its caller came before.
  void Frame(const TraceFrame& frame);

  void Allocate(const Context& context, std::uint64_t address, const TraceAllocation& allocation);
  void AllocateText(const Context& context, std::string_view id, const TraceAllocation& allocation);
  // `allocation` is the number of one that is live.
  void Free(const Context& context, std::uint64_t allocation);
  void Mark(const Context& context, std::uint32_t name);
  void MarkEnd(const Context& context, std::uint32_t name);
  void Failure(const Context& context, const TraceAllocation& failure);
  void Wait(const Context& context, std::uint32_t awaited);
  void Reserve(const Context& context, const TraceReservation& reservation);

  void UnmatchedFrees(std::int64_t count) { Count(Item::kUnmatchedFrees, count); }
  void SkippedRows(std::int64_t count) { Count(Item::kSkippedRows, count); }

  // A device that the trace tells of; `is_own` is the one whose memory it is.
  void Device(std::int32_t device, bool is_own);

  // Closes the block: what was encoded so far can be read once it is in the file.
  void EndBlock();
  // The end of the trace.
  void End(bool ended_early);

  // The whole blocks since the last Clear, after the header if it is the first.
  std::string_view output() const { return {output_.data(), block_begin_}; }
  void Clear();

  std::uint64_t allocations() const { return allocations_; }

 private:
  class ItemBytes;

  void BeginEvent(ItemBytes& bytes, Item item, unsigned flags, const Context& context,
                  bool has_stream);
  void SetTag(TraceTag tag);
  void Name(Item item, std::string_view name);
  void Count(Item item, std::int64_t count);
  void Append(const ItemBytes& bytes, std::string_view text = {});
  void OpenBlock();

  std::string output_;
  std::size_t block_begin_ = 0;
  bool block_is_open_ = false;
  int address_shift_ = 0;
  std::uint64_t allocations_ = 0;
  // What the next item of the block is written as the difference to.
  Context last_;
  std::uint64_t last_address_ = 0;
  TraceTag last_tag_ = 0;
};

}  // namespace tidepool::native

#endif  // TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_ENCODER_H_
