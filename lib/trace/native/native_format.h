// The words of the native format that its writer and its reader share; docs/formats/native_trace.md
// says what they mean.
#ifndef TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_FORMAT_H_
#define TIDEPOOL_LIB_TRACE_NATIVE_NATIVE_FORMAT_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tidepool/trace/trace.h"

namespace tidepool::native {

// A byte beyond ASCII, so that no text begins like a trace, and line endings that a transfer as
// text would change.
inline constexpr std::string_view kMagic = "\x89tide\r\n\x1a";
inline constexpr std::uint32_t kVersion = 2;  // version 1 is the same without kinds 11 to 15
inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::size_t kBlockHeaderBytes = 12;
// A writer ends a block when it has so many bytes; with the longest item it is still one that a
// reader takes.
inline constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
inline constexpr std::size_t kLongestText = std::size_t{1} << 20;
inline constexpr std::size_t kMostBlockBytes = std::size_t{1} << 21;

// The low bits of the byte that begins an item.
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
// And its flags.
inline constexpr unsigned kOffloadable = 0x10;  // the hint of an allocation or a failure
inline constexpr unsigned kNewStream = 0x20;    // not that of the event before: its number follows
inline constexpr unsigned kNewThread = 0x40;
inline constexpr unsigned kTextId = 0x80;      // an allocation whose id is no address
inline constexpr unsigned kEndedEarly = 0x10;  // of kEnd
inline constexpr unsigned kMarkEnd = 0x10;     // of kMark
inline constexpr unsigned kOwnDevice = 0x10;   // of kDevice

// The numbers of the formats in a header.
inline constexpr TraceFormat kOriginalFormats[] = {
    TraceFormat::kNative,      TraceFormat::kOperationCsv,    TraceFormat::kRmmCsv,
    TraceFormat::kLifetimeCsv, TraceFormat::kPyTorchSnapshot, TraceFormat::kChromeTrace};

inline bool IsAlignment(std::int64_t alignment) {
  return alignment >= 1 && alignment <= std::int64_t{1} << 30 &&
         std::has_single_bit(static_cast<std::uint64_t>(alignment));
}

// Signed numbers as unsigned ones that are small when the numbers are near 0: 0, -1, 1, -2, ...
inline std::uint64_t ZigZag(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t UnZigZag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1 ^ (0 - (value & 1)));
}

// The little end first, whatever the machine.
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
