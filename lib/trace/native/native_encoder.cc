// SPDX-License-Identifier: Apache-2.0
// Native encoder. Each block starts from time 0, address 0, the first stream and the first thread,
// so a lost block does not damage the next.
#include "lib/trace/native/native_encoder.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace tidepool::native {

std::uint32_t Checksum(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Bytes of an item without its text.
class NativeEncoder::ItemBytes {
 public:
  void Byte(unsigned value) { bytes_[size_++] = static_cast<char>(value); }
  void Number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte((value & 0x7f) | 0x80);
    Byte(static_cast<unsigned>(value));
  }
  std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, 48> bytes_;  // a byte, two numbers below 2^32, and three of any size
  std::size_t size_ = 0;
};

NativeEncoder::NativeEncoder(std::int64_t alignment, TraceFormat original_format) {
  const auto* const original =
      std::find(std::begin(kOriginalFormats), std::end(kOriginalFormats), original_format);
  char header[kHeaderBytes];
  kMagic.copy(header, kMagic.size());
  Store32(kVersion, header + 8);
  Store32(static_cast<std::uint32_t>(alignment), header + 12);
  Store32(static_cast<std::uint32_t>(original - std::begin(kOriginalFormats)), header + 16);
  Store32(Checksum({header, 20}), header + 20);
  output_.assign(header, sizeof(header));
  block_begin_ = output_.size();
}

void NativeEncoder::SetAddressShift(int shift) {
  if (shift == address_shift_) return;
  EndBlock();
  address_shift_ = shift;
}

void NativeEncoder::Allocate(const Context& context, std::uint64_t address,
                             const TraceAllocation& allocation) {
  SetTagAndRegion(allocation);
  ItemBytes bytes;
  BeginEvent(bytes, Item::kAllocate, allocation.hint == Hint::kOffloadable ? kOffloadable : 0,
             context, true);
  const std::uint64_t units = address >> address_shift_;
  bytes.Number(ZigZag(static_cast<std::int64_t>(units - last_address_)));
  last_address_ = units;
  bytes.Number(static_cast<std::uint64_t>(allocation.bytes));
  Append(bytes);
  ++allocations_;
}

void NativeEncoder::AllocateText(const Context& context, std::string_view id,
                                 const TraceAllocation& allocation) {
  SetTagAndRegion(allocation);
  ItemBytes bytes;
  BeginEvent(bytes, Item::kAllocate,
             kTextId | (allocation.hint == Hint::kOffloadable ? kOffloadable : 0), context, true);
  bytes.Number(static_cast<std::uint64_t>(allocation.bytes));
  bytes.Number(id.size());
  Append(bytes, id);
  ++allocations_;
}

void NativeEncoder::Free(const Context& context, std::uint64_t allocation) {
  ItemBytes bytes;
  BeginEvent(bytes, Item::kFree, 0, context, true);
  bytes.Number(allocations_ - 1 - allocation);
  Append(bytes);
}

void NativeEncoder::Mark(const Context& context, std::uint32_t name) {
  ItemBytes bytes;
  BeginEvent(bytes, Item::kMark, 0, context, false);
  bytes.Number(name);
  Append(bytes);
}

void NativeEncoder::MarkEnd(const Context& context, std::uint32_t name) {
  ItemBytes bytes;
  BeginEvent(bytes, Item::kMark, kMarkEnd, context, false);
  bytes.Number(name);
  Append(bytes);
}

void NativeEncoder::Failure(const Context& context, const TraceFailure& failure) {
  SetTagAndRegion(failure);
  ItemBytes bytes;
  const bool knows_free = failure.device_free_bytes.value_or(-1) >= 0;
  BeginEvent(
      bytes, Item::kFailure,
      (failure.hint == Hint::kOffloadable ? kOffloadable : 0) | (knows_free ? kDeviceFree : 0),
      context, true);
  bytes.Number(static_cast<std::uint64_t>(failure.bytes));
  if (knows_free) bytes.Number(static_cast<std::uint64_t>(*failure.device_free_bytes));
  Append(bytes);
}

void NativeEncoder::Wait(const Context& context, std::uint32_t awaited) {
  ItemBytes bytes;
  BeginEvent(bytes, Item::kWait, 0, context, true);
  bytes.Number(awaited);
  Append(bytes);
}

void NativeEncoder::Reserve(const Context& context, const TraceReservation& reservation) {
  ItemBytes bytes;
  BeginEvent(bytes, Item::kReservation, 0, context, true);
  bytes.Number(reservation.address);
  bytes.Number(ZigZag(reservation.bytes));
  Append(bytes);
}

void NativeEncoder::Pause(const Context& context, const TracePause& pause) {
  Sleep(context, pause.region, static_cast<unsigned>(pause.mode) + 1);
}

void NativeEncoder::Resume(const Context& context, TraceRegion region) {
  Sleep(context, region, kResumeMode);
}

void NativeEncoder::Sleep(const Context& context, TraceRegion region, unsigned mode) {
  ItemBytes bytes;
  BeginEvent(bytes, Item::kWait, kSleep, context, true);
  bytes.Number(region - 1U);
  bytes.Number(mode);
  Append(bytes);
}

void NativeEncoder::Frame(const TraceFrame& frame) {
  ItemBytes bytes;
  bytes.Byte(static_cast<unsigned>(Item::kFrame));
  bytes.Number(frame.caller);
  bytes.Number(frame.name);
  bytes.Number(frame.file);
  bytes.Number(frame.line);
  Append(bytes);
}

void NativeEncoder::Device(std::int32_t device, bool is_own) {
  ItemBytes bytes;
  bytes.Byte(static_cast<unsigned>(Item::kDevice) | (is_own ? kOwnDevice : 0));
  bytes.Number(ZigZag(device));
  Append(bytes);
}

// Loops, because an item may end the block, and a new block begins without a tag and a region.
void NativeEncoder::SetTagAndRegion(const TraceAllocation& allocation) {
  while (last_tag_ != allocation.tag || last_region_ != allocation.region) {
    const bool is_region = last_tag_ == allocation.tag;
    ItemBytes bytes;
    bytes.Byte(static_cast<unsigned>(Item::kTag) | (is_region ? kRegion : 0));
    bytes.Number(is_region ? allocation.region : allocation.tag);
    if (is_region) {
      last_region_ = allocation.region;
    } else {
      last_tag_ = allocation.tag;
    }
    Append(bytes);
  }
}

void NativeEncoder::BeginEvent(ItemBytes& bytes, Item item, unsigned flags, const Context& context,
                               bool has_stream) {
  if (!block_is_open_) OpenBlock();
  const bool new_stream = has_stream && context.stream != last_.stream;
  const bool new_thread = context.thread != last_.thread;
  bytes.Byte(static_cast<unsigned>(item) | flags | (new_stream ? kNewStream : 0) |
             (new_thread ? kNewThread : 0));
  if (new_stream) bytes.Number(last_.stream = context.stream);
  if (new_thread) bytes.Number(last_.thread = context.thread);
  bytes.Number(ZigZag(static_cast<std::int64_t>(static_cast<std::uint64_t>(context.time) -
                                                static_cast<std::uint64_t>(last_.time))));
  last_.time = context.time;
}

void NativeEncoder::Setting(const TraceSetting& setting) {
  Name(Item::kFrameText, setting.name + "=" + setting.value, kSetting);
}

void NativeEncoder::Name(Item item, std::string_view name, unsigned flags) {
  ItemBytes bytes;
  bytes.Byte(static_cast<unsigned>(item) | flags);
  bytes.Number(name.size());
  Append(bytes, name);
}

void NativeEncoder::Count(Item item, std::int64_t count, unsigned flags) {
  if (count == 0) return;
  ItemBytes bytes;
  bytes.Byte(static_cast<unsigned>(item) | flags);
  bytes.Number(static_cast<std::uint64_t>(count));
  Append(bytes);
}

void NativeEncoder::Append(const ItemBytes& bytes, std::string_view text) {
  if (!block_is_open_) OpenBlock();
  output_.append(bytes.view());
  output_.append(text);
  if (output_.size() - block_begin_ >= kBlockBytes) EndBlock();
}

void NativeEncoder::OpenBlock() {
  block_is_open_ = true;
  output_.append(kBlockHeaderBytes, '\0');
  output_.push_back(static_cast<char>(address_shift_));
  last_ = Context();
  last_address_ = 0;
}

void NativeEncoder::EndBlock() {
  if (!block_is_open_) return;
  block_is_open_ = false;
  last_tag_ = 0;
  last_region_ = 0;
  char* const header = output_.data() + block_begin_;
  const std::string_view payload =
      std::string_view(output_).substr(block_begin_ + kBlockHeaderBytes);
  Store32(static_cast<std::uint32_t>(payload.size()), header);
  Store32(Checksum(payload), header + 4);
  Store32(Checksum({header, 8}), header + 8);
  block_begin_ = output_.size();
}

void NativeEncoder::End(bool ended_early, bool has_history) {
  ItemBytes bytes;
  bytes.Byte(static_cast<unsigned>(Item::kEnd) | (ended_early ? kEndedEarly : 0) |
             (has_history ? 0 : kNoHistory));
  Append(bytes);
  EndBlock();
}

void NativeEncoder::Clear() {
  output_.erase(0, block_begin_);
  block_begin_ = 0;
}

}  // namespace tidepool::native
