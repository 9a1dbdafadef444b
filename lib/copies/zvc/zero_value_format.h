// SPDX-License-Identifier: Apache-2.0
// Zero-value format: header, index entries, payload sizes and checksum, as in
// docs/formats/zero_value_format.md.
#ifndef TIDEPOOL_LIB_COPIES_ZVC_ZERO_VALUE_FORMAT_H_
#define TIDEPOOL_LIB_COPIES_ZVC_ZERO_VALUE_FORMAT_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lib/base/arithmetic.h"
#include "tidepool/copies/zero_value_codec.h"

namespace tidepool::zvc {

static_assert(std::endian::native == std::endian::little,
              "streams are little-endian and are read as they lie in memory");

inline constexpr std::size_t kBlockBytes = kZeroValueBlockBytes;
// Unit of payloads: their sizes and offsets are multiples of it.
inline constexpr std::size_t kRowBytes = 64;
// Blocks in a group; an open stream knows the offset of each group's first payload.
inline constexpr std::size_t kGroupBlocks = 16;

inline constexpr std::array<char, 8> kMagic = {'\x89', 't', 'p', 'z', 'v', '\r', '\n', '\x1a'};
inline constexpr std::uint16_t kVersion = 1;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint8_t word_bytes = 4;
  std::uint8_t mode = 0;
  std::uint32_t block_bytes = kBlockBytes;
  std::uint64_t input_bytes = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t checksum = 0;  // checksum of the contents: see HeaderHash and BlockHash
  std::array<std::uint8_t, 20> reserved = {};
  std::uint32_t header_checksum = 0;  // crc32 of the fields before it
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);
static_assert(offsetof(Header, version) == 8 && offsetof(Header, word_bytes) == 10 &&
              offsetof(Header, mode) == 11 && offsetof(Header, block_bytes) == 12 &&
              offsetof(Header, input_bytes) == 16 && offsetof(Header, payload_bytes) == 24 &&
              offsetof(Header, checksum) == 32 && offsetof(Header, reserved) == 40 &&
              offsetof(Header, header_checksum) == 60);

struct IndexEntry {
  std::uint16_t count = 0;  // words that are not zero
  std::uint8_t bits = 0;    // bits of each packed word
  std::uint8_t flags = 0;
  std::uint32_t base = 0;  // subtracted from each word

  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};
static_assert(sizeof(IndexEntry) == 8 && std::is_trivially_copyable_v<IndexEntry>);
static_assert(offsetof(IndexEntry, bits) == 2 && offsetof(IndexEntry, flags) == 3 &&
              offsetof(IndexEntry, base) == 4);

inline constexpr std::uint8_t kRotated = 1;
inline constexpr std::uint8_t kRaw = 2;

constexpr std::size_t InWholeRows(std::size_t bytes) { return RoundUp(bytes, kRowBytes); }
constexpr std::size_t BlocksOf(std::size_t input_bytes) {
  return input_bytes / kBlockBytes + (input_bytes % kBlockBytes != 0);
}
constexpr std::size_t WordsOfBlock(std::size_t word_bytes) { return kBlockBytes / word_bytes; }
constexpr std::size_t MaskBytes(std::size_t word_bytes) { return WordsOfBlock(word_bytes) / 8; }
constexpr std::size_t IndexBytes(std::size_t blocks) {
  return InWholeRows(blocks * sizeof(IndexEntry));
}
constexpr std::size_t PayloadsBegin(std::size_t blocks) {
  return sizeof(Header) + IndexBytes(blocks);
}

// Returns the size of `count` words of `bits` bits, packed lane by lane: words of a lane follow
// each other in its bits.
constexpr std::size_t PackedBytes(std::size_t word_bytes, std::size_t count, std::size_t bits) {
  const std::size_t word_bits = word_bytes == 2 ? 16 : 32;
  const std::size_t words_a_lane = InWholeRows(count * word_bytes) / kRowBytes;
  return CeilDivide(words_a_lane * bits, word_bits) * kRowBytes;
}

// A block without zeros has no mask.
constexpr std::size_t MaskBytes(const IndexEntry& entry, std::size_t word_bytes) {
  return entry.count == WordsOfBlock(word_bytes) ? 0 : MaskBytes(word_bytes);
}

// Returns the payload size of a block of `block_bytes` bytes.
constexpr std::size_t PayloadBytes(const IndexEntry& entry, std::size_t word_bytes,
                                   std::size_t block_bytes) {
  if (entry.count == 0) return 0;
  if ((entry.flags & kRaw) != 0) return InWholeRows(block_bytes);
  return MaskBytes(entry, word_bytes) + PackedBytes(word_bytes, entry.count, entry.bits);
}
static_assert(PayloadBytes({2048, 27, 0, 0}, 4, kBlockBytes) == 2048 * 27 / 8);
static_assert(PayloadBytes({1, 1, 0, 0}, 4, kBlockBytes) == 256 + 64);
static_assert(PayloadBytes({4064, 9, kRotated, 0}, 2, kBlockBytes) == 512 + 4096 * 9 / 8);

// The checksum is the sum of a hash of the header's fields and, for each block, a hash of its
// number, entry and payload.
inline constexpr std::size_t kSumLanes = 8;
struct RowSums {
  std::array<std::uint64_t, kSumLanes> plain = {};     // sum of the rows
  std::array<std::uint64_t, kSumLanes> weighted = {};  // sum of all intermediate values of `plain`
};

constexpr std::array<std::uint64_t, 2 * kSumLanes + 4> SumFactors() {
  std::array<std::uint64_t, 2 * kSumLanes + 4> factors = {};
  std::uint64_t power = 1;
  for (std::uint64_t& factor : factors) factor = power *= 0x9e3779b97f4a7c15;
  return factors;
}

inline constexpr auto kSumFactors = SumFactors();

// Mixes a hash so that each output bit depends on all input bits; a bijection (last step of
// SplitMix64).
constexpr std::uint64_t Mixed(std::uint64_t hash) {
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

// Returns a hash of length, word size and mode. It detects a change of these even where the
// header's crc32 was recomputed.
constexpr std::uint64_t HeaderHash(const Header& header) {
  const std::uint64_t kind = header.word_bytes + header.mode * std::uint64_t{256};
  return Mixed(header.input_bytes * kSumFactors[2 * kSumLanes + 2] +
               kind * kSumFactors[2 * kSumLanes + 3]);
}

inline std::uint64_t BlockHash(std::size_t block, const IndexEntry& entry, const RowSums& sums) {
  std::uint64_t hash = std::bit_cast<std::uint64_t>(entry) * kSumFactors[2 * kSumLanes] +
                       (block + 1) * kSumFactors[2 * kSumLanes + 1];
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    // The weighted sum has an even factor. So the total factor of a lane of a row stays odd, and no
    // change of it vanishes.
    hash += sums.plain[lane] * kSumFactors[lane] +
            2 * sums.weighted[lane] * kSumFactors[kSumLanes + lane];
  }
  return Mixed(hash);
}

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_COPIES_ZVC_ZERO_VALUE_FORMAT_H_
