// SPDX-License-Identifier: Apache-2.0
// Native format: constants that writer and reader share. docs/formats/native_trace.md explains
// them.
#ifndef TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_FORMAT_H_
#define TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_FORMAT_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tidepool/trace/trace.h"

namespace tidepool::native {

// Magic number: a byte outside ASCII, so that no text begins like a trace, and line endings that a
// transfer as text would change.
inline constexpr std::string_view kMagic = "\x89tide\r\n\x1a";
// Version 1 lacks kinds 11 to 15; versions 1 and 2 lack the flags kDeviceFree to kNoHistory, and
// versions 1 to 3 those of regions.
inline constexpr std::uint32_t kVersion = 4;
inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::size_t kBlockHeaderBytes = 12;
// Size at which a writer ends a block. Even with the longest item added, a reader accepts the
// block.
inline constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
inline constexpr std::size_t kLongestText = std::size_t{1} << 20;
inline constexpr std::size_t kMostBlockBytes = std::size_t{1} << 21;

// Kind of an item: the low bits of its first byte.
enum class Item : std::uint8_t {
  kAllocate = 0,
  kFree = 1,
  kMark = 2,
  kFailure = 3,
  kWait = 4,
  kStreamName = 5,
  kThreadName = 6,
  kMarkName = 7,
  kUnmatchedFrees = 8,
  kSkippedRows = 9,
  kEnd = 10,
  kReservation = 11,
  kFrameText = 12,
  kFrame = 13,
  kTag = 14,
  kDevice = 15,
};
inline constexpr unsigned kItemMask = 0x0f;
// Flags: the high bits of an item's first byte.
inline constexpr unsigned kOffloadable = 0x10;  // the hint of an allocation or a failure
// the stream differs from the last event's: its number follows
inline constexpr unsigned kNewStream = 0x20;
inline constexpr unsigned kNewThread = 0x40;
inline constexpr unsigned kTextId = 0x80;      // an allocation with an id that is not an address
inline constexpr unsigned kEndedEarly = 0x10;  // flag of kEnd
inline constexpr unsigned kMarkEnd = 0x10;     // flag of kMark
inline constexpr unsigned kOwnDevice = 0x10;   // flag of kDevice
// Since version 3.
inline constexpr unsigned kDeviceFree = 0x80;  // flag of kFailure: the device's free bytes follow
inline constexpr unsigned kEarlier = 0x10;     // flag of kSkippedRows: earlier allocations instead
inline constexpr unsigned kSetting = 0x10;     // flag of kFrameText: an allocator setting instead
inline constexpr unsigned kNoHistory = 0x20;   // flag of kEnd
// Since version 4.
inline constexpr unsigned kRegionName = 0x10;  // flag of kMarkName: the name of a region instead
inline constexpr unsigned kRegion = 0x10;      // flag of kTag: a region instead
inline constexpr unsigned kSleep = 0x10;       // flag of kWait: a pause or a resume instead
// The modes of pauses follow it, by their numbers.
inline constexpr unsigned kResumeMode = 0;

// Formats by their number in a header.
inline constexpr TraceFormat kOriginalFormats[] = {
    TraceFormat::kNative,         TraceFormat::kOperationCsv,    TraceFormat::kRmmCsv,
    TraceFormat::kLifetimeCsv,    TraceFormat::kPyTorchSnapshot, TraceFormat::kChromeTrace,
    TraceFormat::kMemoryTimeline, TraceFormat::kHeapProfile,     TraceFormat::kRmmDebugLog};

inline bool IsAlignment(std::int64_t alignment) {
  return alignment >= 1 && alignment <= std::int64_t{1} << 30 &&
         std::has_single_bit(static_cast<std::uint64_t>(alignment));
}

// Maps signed to unsigned numbers, small for numbers near 0: 0, -1, 1, -2, ...
inline std::uint64_t ZigZag(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t UnZigZag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1 ^ (0 - (value & 1)));
}

// Store and load 32 bits, little-endian on every machine.
inline void Store32(std::uint32_t value, char* at) {
  for (int byte = 0; byte < 4; ++byte) at[byte] = static_cast<char>(value >> 8 * byte);
}
inline std::uint32_t Load32(const char* at) {
  std::uint32_t value = 0;
  for (int byte = 0; byte < 4; ++byte)
    value |= std::uint32_t{static_cast<unsigned char>(at[byte])} << 8 * byte;
  return value;
}

std::uint32_t Checksum(std::string_view bytes);

}  // namespace tidepool::native

#endif  // TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_FORMAT_H_
