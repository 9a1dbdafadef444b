// The kernel for every processor: word by word.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "lib/zvc/kernels.h"

namespace tidepool::internal::zvc {
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
Scan ScanBlock(const std::byte* block, std::byte* mask, std::byte* words) {
  constexpr Word kMost = std::numeric_limits<Word>::max();
  Scan scan;
  Word least = kMost;
  Word most = 0;
  Word rotated_least = kMost;
  Word rotated_most = 0;
  for (std::size_t begin = 0; begin < WordsOfBlock(sizeof(Word)); begin += 64) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      const Word word = Load<Word>(block, begin + i);
      const Word rotated = std::rotl(word, 1);
      // One less, so that zeros are larger than all others. A zero is written, and overwritten by
      // what comes next.
      least = std::min(least, static_cast<Word>(word - 1));
      rotated_least = std::min(rotated_least, static_cast<Word>(rotated - 1));
      most = std::max(most, word);
      rotated_most = std::max(rotated_most, rotated);
      std::memcpy(words + scan.count * sizeof(Word), &word, sizeof(Word));
      scan.count += word != 0;
      bits |= static_cast<std::uint64_t>(word != 0) << i;
    }
    std::memcpy(mask + begin / 8, &bits, sizeof(bits));
  }
  scan.least = static_cast<Word>(least + 1);
  scan.most = most;
  scan.rotated_least = static_cast<Word>(rotated_least + 1);
  scan.rotated_most = rotated_most;
  return scan;
}

template <typename Word>
void Pack(const std::byte* words, const Packing& packing, std::byte* rows) {
  Row<Word> row = {};
  std::uint32_t filled = 0;
  for (std::size_t begin = 0; begin < packing.count; begin += kLanes<Word>) {
    Row<Word> values;
    std::memcpy(&values, words + begin * sizeof(Word), sizeof(values));
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
    // `filled` bits of each value did not fit; fewer than a word's, because a value has fewer.
    for (std::size_t lane = 0; lane < kLanes<Word>; ++lane) {
      row[lane] = static_cast<Word>(values[lane] >> (packing.bits - filled));
    }
  }
  if (filled > 0) std::memcpy(rows, &row, sizeof(row));
}

template <typename Word>
void Unpack(const std::byte* rows, const Packing& packing, std::byte* words) {
  const Word value_mask = static_cast<Word>((std::uint64_t{1} << packing.bits) - 1);
  Row<Word> row = {};
  std::uint32_t left = 0;  // bits of `row` that were not read
  for (std::size_t begin = 0; begin < packing.count; begin += kLanes<Word>) {
    Row<Word> values = row;
    const std::uint32_t had = left;
    if (left < packing.bits) {
      std::memcpy(&row, rows, sizeof(row));
      rows += kRowBytes;
      for (std::size_t lane = 0; lane < kLanes<Word>; ++lane) {
        values[lane] = static_cast<Word>(values[lane] | (row[lane] << had));
      }
      const std::uint32_t taken = packing.bits - had;
      for (Word& word : row) word = static_cast<Word>(word >> taken);
      left = kBits<Word> - taken;
    } else {
      for (Word& word : row) word = static_cast<Word>(word >> packing.bits);
      left -= packing.bits;
    }
    for (Word& value : values) {
      value = static_cast<Word>((value & value_mask) + packing.base);
    }
    if (packing.rotated) {
      for (Word& value : values) value = std::rotr(value, 1);
    }
    std::memcpy(words + begin * sizeof(Word), &values, sizeof(values));
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

RowSums Sum(const std::byte* rows, std::size_t bytes) {
  RowSums sums;
  for (const std::byte* const end = rows + bytes; rows != end; rows += kRowBytes) {
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
      sums.plain[lane] += Load<std::uint64_t>(rows, lane);
      sums.weighted[lane] += sums.plain[lane];
    }
  }
  return sums;
}

template <typename Word>
inline constexpr Kernel kKernel = {ScanBlock<Word>, Pack<Word>, Unpack<Word>, Expand<Word>, Sum};

}  // namespace scalar

const Kernel kScalar16 = scalar::kKernel<std::uint16_t>;
const Kernel kScalar32 = scalar::kKernel<std::uint32_t>;

}  // namespace tidepool::internal::zvc
