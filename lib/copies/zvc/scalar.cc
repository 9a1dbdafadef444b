// SPDX-License-Identifier: Apache-2.0
// Portable kernels: work word by word.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lib/copies/zvc/kernels.h"

namespace tidepool::zvc {
namespace scalar {

template <typename Word>
inline constexpr std::uint32_t kBits = std::numeric_limits<Word>::digits;
template <typename Word>
inline constexpr std::size_t kLanes = kRowBytes / sizeof(Word);
template <typename Word>
using Row = std::array<Word, kLanes<Word>>;

template <typename Word>
Word Load(const std::byte* from, std::size_t index) {
  Word word;
  std::memcpy(&word, from + index * sizeof(Word), sizeof(Word));
  return word;
}

template <typename Word>
Row<Word> RowAt(const std::byte* from) {
  Row<Word> row;
  std::memcpy(&row, from, sizeof(row));
  return row;
}

// Minimum and maximum of each lane: independent lanes let the processor overlap the comparisons.
template <typename Word>
struct Ends {
  Row<Word> least;
  Row<Word> most;

  Ends(const std::byte* words, std::size_t bytes) : least(RowAt<Word>(words)), most(least) {
    for (std::size_t at = sizeof(least); at < bytes; at += sizeof(least)) {
      const Row<Word> row = RowAt<Word>(words + at);
      for (std::size_t lane = 0; lane < kLanes<Word>; ++lane) {
        least[lane] = std::min(least[lane], row[lane]);
        most[lane] = std::max(most[lane], row[lane]);
      }
    }
  }
};

// Returns the range of `count` words. Compares them as signed words, because processors without AVX
// have only that as a vector instruction. Unsigned comparison is needed only if both signs occur.
template <typename Word>
Scan RangeOf(std::byte* words, std::size_t count) {
  for (std::size_t i = count; i < count + kLanes<Word>; ++i) {
    std::memcpy(words + i * sizeof(Word), words, sizeof(Word));
  }
  using SignedWord = std::make_signed_t<Word>;
  const Ends<SignedWord> ends(words, count * sizeof(Word));
  const auto least = *std::min_element(ends.least.begin(), ends.least.end());
  const auto most = *std::max_element(ends.most.begin(), ends.most.end());
  Scan scan;
  scan.count = static_cast<std::uint32_t>(count);
  scan.least = scan.signed_least = static_cast<Word>(least);
  scan.most = scan.signed_most = static_cast<Word>(most);
  if ((least < 0) == (most < 0)) return scan;
  const Ends<Word> unsigned_ends(words, count * sizeof(Word));
  scan.least = *std::min_element(unsigned_ends.least.begin(), unsigned_ends.least.end());
  scan.most = *std::max_element(unsigned_ends.most.begin(), unsigned_ends.most.end());
  return scan;
}

// Turns eight bytes that are 0 or 1 into eight bits, the first byte into the lowest bit.
inline std::uint8_t BitsOfBytes(std::uint64_t bytes) {
  return static_cast<std::uint8_t>(bytes * 0x0102040810204080 >> 56);
}

template <typename Word>
Scan ScanBlock(const std::byte* block, const std::byte* /*next*/, std::byte* mask,
               std::byte* words) {
  constexpr std::size_t kStep = 64;
  std::byte* end = words;
  for (std::size_t begin = 0; begin < WordsOfBlock(sizeof(Word)); begin += kStep) {
    std::array<Word, kStep> values;
    std::memcpy(&values, block + begin * sizeof(Word), sizeof(values));
    std::array<std::uint8_t, kStep> is_set;
    for (std::size_t i = 0; i < kStep; ++i) is_set[i] = values[i] != 0;
    for (std::size_t i = 0; i < kStep; i += 8) {
      std::uint64_t bytes;
      std::memcpy(&bytes, &is_set[i], sizeof(bytes));
      mask[(begin + i) / 8] = std::byte{BitsOfBytes(bytes)};
    }
    // Writes zeros too; the next word overwrites them. This avoids a branch.
    for (std::size_t i = 0; i < kStep; ++i) {
      std::memcpy(end, &values[i], sizeof(Word));
      end += is_set[i] * sizeof(Word);
    }
  }
  return RangeOf<Word>(words, static_cast<std::size_t>(end - words) / sizeof(Word));
}

void AddRow(const std::byte* row, RowSums& sums) {
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    sums.plain[lane] += Load<std::uint64_t>(row, lane);
    sums.weighted[lane] += sums.plain[lane];
  }
}

void Sum(const std::byte* rows, std::size_t bytes, RowSums& sums) {
  RowSums local = sums;  // local copy, which can stay in registers
  for (std::size_t at = 0; at < bytes; at += kRowBytes) AddRow(rows + at, local);
  sums = local;
}

void Copy(const std::byte* from, std::size_t bytes, std::byte* rows, RowSums& sums) {
  std::memcpy(rows, from, bytes);
  Sum(from, bytes, sums);
}

template <typename Word>
void Pack(const std::byte* words, const Packing& packing, std::byte* rows, RowSums& sums) {
  std::byte* const first = rows;
  Row<Word> row = {};
  std::uint32_t filled = 0;
  for (std::size_t begin = 0; begin < packing.count; begin += kLanes<Word>) {
    Row<Word> values = RowAt<Word>(words + begin * sizeof(Word));
    if (packing.rotated) {
      for (Word& value : values) value = std::rotl(value, 1);
    }
    for (Word& value : values) value = static_cast<Word>(value - packing.base);
    for (std::size_t lane = 0; lane < kLanes<Word>; ++lane) {
      row[lane] = static_cast<Word>(row[lane] | (values[lane] << filled));
    }
    filled += packing.bits;
    if (filled < kBits<Word>) continue;
    std::memcpy(rows, &row, sizeof(row));
    rows += kRowBytes;
    filled -= kBits<Word>;
    // `filled` bits of each value did not fit: less than a word, because a value is shorter.
    for (std::size_t lane = 0; lane < kLanes<Word>; ++lane) {
      row[lane] = static_cast<Word>(values[lane] >> (packing.bits - filled));
    }
  }
  if (filled > 0) std::memcpy(rows, &row, sizeof(row));
  Sum(first, PackedBytes(sizeof(Word), packing.count, packing.bits), sums);
}

// Extracts the packed words that begin at bit `begin_bit` of each lane of a row. With
// `kEndsInNext`, some of their bits are in the next row.
template <typename Word, bool kEndsInNext>
Row<Word> UnpackedRow(const std::byte* rows, std::uint32_t begin_bit, Word value_mask, Word base) {
  Row<Word> values = RowAt<Word>(rows);
  Row<Word> next = {};
  if constexpr (kEndsInNext) next = RowAt<Word>(rows + kRowBytes);
  for (std::size_t lane = 0; lane < kLanes<Word>; ++lane) {
    Word value = static_cast<Word>(values[lane] >> begin_bit);
    if constexpr (kEndsInNext) value |= static_cast<Word>(next[lane] << (kBits<Word> - begin_bit));
    values[lane] = static_cast<Word>((value & value_mask) + base);
  }
  return values;
}

template <typename Word>
void Unpack(const std::byte* rows, const Packing& packing, std::byte* words, RowSums& sums) {
  Sum(rows, PackedBytes(sizeof(Word), packing.count, packing.bits), sums);
  const Word value_mask = static_cast<Word>((std::uint64_t{1} << packing.bits) - 1);
  const Word base = static_cast<Word>(packing.base);
  std::uint32_t begin_bit = 0;
  for (std::size_t begin = 0; begin < packing.count; begin += kLanes<Word>) {
    const std::uint32_t end_bit = begin_bit + packing.bits;
    Row<Word> values = end_bit > kBits<Word>
                           ? UnpackedRow<Word, true>(rows, begin_bit, value_mask, base)
                           : UnpackedRow<Word, false>(rows, begin_bit, value_mask, base);
    if (packing.rotated) {
      for (Word& value : values) value = std::rotr(value, 1);
    }
    std::memcpy(words + begin * sizeof(Word), &values, sizeof(values));
    rows += end_bit / kBits<Word> * kRowBytes;
    begin_bit = end_bit % kBits<Word>;
  }
}

template <typename Word>
std::uint32_t Expand(const std::byte* mask, const std::byte* words, std::byte* block) {
  std::uint32_t count = 0;
  for (std::size_t begin = 0; begin < WordsOfBlock(sizeof(Word)); begin += 64) {
    const auto bits = Load<std::uint64_t>(mask, begin / 64);
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t bit = (bits >> i) & 1;
      const Word word = static_cast<Word>(Load<Word>(words, count) * bit);
      std::memcpy(block + (begin + i) * sizeof(Word), &word, sizeof(Word));
      count += bit;
    }
  }
  return count;
}

template <typename Word>
inline constexpr Writers kWriters = {Pack<Word>, Copy, Expand<Word>};
template <typename Word>
inline constexpr Kernel kKernel = {ScanBlock<Word>, Sum, Unpack<Word>, kWriters<Word>,
                                   kWriters<Word>};

}  // namespace scalar

const Kernel kScalar16 = scalar::kKernel<std::uint16_t>;
const Kernel kScalar32 = scalar::kKernel<std::uint32_t>;

}  // namespace tidepool::zvc
