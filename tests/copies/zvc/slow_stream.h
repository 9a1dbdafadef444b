// SPDX-License-Identifier: Apache-2.0
// Reference encoder: makes streams bit by bit from docs/formats/zero_value_format.md, without code
// of lib/copies/zvc.
#ifndef TIDEPOOL_TESTS_COPIES_ZVC_SLOW_STREAM_H_
#define TIDEPOOL_TESTS_COPIES_ZVC_SLOW_STREAM_H_

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidepool::slow {

using Bytes = std::vector<std::byte>;

inline void Append(Bytes& bytes, std::uint64_t number, int width) {
  for (int i = 0; i < width; ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i)));
}

inline std::uint64_t NumberAt(const Bytes& bytes, std::size_t at, std::size_t width) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < width; ++i) {
    number |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  }
  return number;
}

inline void PadToRow(Bytes& bytes) {
  while (bytes.size() % 64 != 0) bytes.push_back(std::byte{0});
}

struct Block {
  std::uint64_t entry = 0;
  Bytes payload;
};

inline std::uint64_t EntryOf(std::uint64_t count, std::uint64_t bits, std::uint64_t flags,
                             std::uint64_t base) {
  return count | bits << 16 | flags << 24 | base << 32;
}

inline void SetBit(Bytes& bytes, std::size_t bit) { bytes[bit / 8] |= std::byte{1} << bit % 8; }

inline int WidthOfRange(const std::vector<std::uint64_t>& words) {
  const auto [least, most] = std::minmax_element(words.begin(), words.end());
  return std::bit_width(*most - *least);
}

inline Block CompressBlock(Bytes raw, std::size_t word_bytes, bool is_plain) {
  const std::size_t word_bits = 8 * word_bytes;
  Bytes whole = raw;
  whole.resize(8192);
  PadToRow(raw);
  Bytes mask(8192 / word_bytes / 8);
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < 8192 / word_bytes; ++i) {
    const std::uint64_t word = NumberAt(whole, i * word_bytes, word_bytes);
    if (word == 0) continue;
    words.push_back(word);
    SetBit(mask, i);
  }
  if (words.empty()) return {};

  std::vector<std::uint64_t> rotated;
  for (const std::uint64_t word : words) {
    rotated.push_back((word << 1 & ((std::uint64_t{1} << word_bits) - 1)) |
                      word >> (word_bits - 1));
  }
  const bool is_rotated = WidthOfRange(rotated) < WidthOfRange(words);
  std::vector<std::uint64_t> values = is_rotated ? rotated : words;
  std::size_t bits = WidthOfRange(values);
  std::uint64_t base = *std::min_element(values.begin(), values.end());
  std::uint64_t flags = is_rotated ? 1 : 0;
  if (is_plain || bits == word_bits) {
    values = words;
    bits = word_bits;
    base = 0;
    flags = 0;
  }
  const std::size_t lanes = 64 / word_bytes;
  const std::size_t lane_bits = (values.size() + lanes - 1) / lanes * bits;
  Bytes rows((lane_bits + word_bits - 1) / word_bits * 64);
  for (std::size_t j = 0; j < values.size(); ++j) {
    for (std::size_t bit = 0; bit < bits; ++bit) {
      if (((values[j] - base) >> bit & 1) == 0) continue;
      const std::size_t p = j / lanes * bits + bit;
      SetBit(rows, p / word_bits * 512 + j % lanes * word_bits + p % word_bits);
    }
  }
  Bytes payload = words.size() == 8192 / word_bytes ? Bytes() : mask;
  payload.insert(payload.end(), rows.begin(), rows.end());
  if (payload.size() >= raw.size()) return {EntryOf(words.size(), word_bits, 2, 0), raw};
  return {EntryOf(words.size(), bits, flags, base), payload};
}

inline std::uint64_t Power(std::uint64_t base, int exponent) {
  std::uint64_t power = 1;
  while (exponent-- > 0) power *= base;
  return power;
}

inline constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15;

inline std::uint64_t Mixed(std::uint64_t hash) {
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  return hash ^ hash >> 31;
}

inline std::uint64_t HashOf(const Block& block, std::uint64_t number) {
  const std::size_t rows = block.payload.size() / 64;
  std::uint64_t hash = block.entry * Power(kBase, 17) + (number + 1) * Power(kBase, 18);
  for (int lane = 0; lane < 8; ++lane) {
    const std::uint64_t plain_factor = Power(kBase, lane + 1);
    const std::uint64_t weighted_factor = 2 * Power(kBase, lane + 9);
    for (std::size_t i = 0; i < rows; ++i) {
      const std::uint64_t part = NumberAt(block.payload, i * 64 + lane * 8, 8);
      hash += part * plain_factor + (rows - i) * part * weighted_factor;
    }
  }
  return Mixed(hash);
}

inline std::uint64_t HashOfHeader(std::uint64_t input_bytes, std::uint64_t word_bytes,
                                  bool is_plain) {
  return Mixed(input_bytes * Power(kBase, 19) +
               (word_bytes + (is_plain ? 256 : 0)) * Power(kBase, 20));
}

inline Bytes Compress(const Bytes& input, std::size_t word_bytes, bool is_plain) {
  Bytes index;
  Bytes payloads;
  std::uint64_t checksum = HashOfHeader(input.size(), word_bytes, is_plain);
  for (std::size_t begin = 0; begin < input.size(); begin += 8192) {
    const std::size_t end = std::min(input.size(), begin + 8192);
    const Block block =
        CompressBlock(Bytes(input.begin() + begin, input.begin() + end), word_bytes, is_plain);
    checksum += HashOf(block, begin / 8192);
    Append(index, block.entry, 8);
    payloads.insert(payloads.end(), block.payload.begin(), block.payload.end());
  }
  PadToRow(index);

  Bytes stream;
  for (const int byte : {0x89, 0x74, 0x70, 0x7a, 0x76, 0x0d, 0x0a, 0x1a}) Append(stream, byte, 1);
  Append(stream, 1, 2);
  Append(stream, word_bytes, 1);
  Append(stream, is_plain ? 1 : 0, 1);
  Append(stream, 8192, 4);
  Append(stream, input.size(), 8);
  Append(stream, payloads.size(), 8);
  Append(stream, checksum, 8);
  stream.resize(60);
  Append(stream, crc32(0, reinterpret_cast<const Bytef*>(stream.data()), 60), 4);
  stream.insert(stream.end(), index.begin(), index.end());
  stream.insert(stream.end(), payloads.begin(), payloads.end());
  return stream;
}

}  // namespace tidepool::slow

#endif  // TIDEPOOL_TESTS_COPIES_ZVC_SLOW_STREAM_H_
