// SPDX-License-Identifier: Apache-2.0
// Kernels for AVX2. A row is two registers. AVX2 has no compress or expand instruction, so a table
// gives the permutation for each mask of eight words.
#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>

#include "lib/copies/zvc/kernels.h"

#define TIDEPOOL_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace tidepool::zvc {
namespace avx2 {

// Permutations of eight words: for each mask, the source word of each target word.
struct Shuffle {
  std::array<std::uint8_t, 8> places;
};
constexpr std::uint8_t kNothing = 0x80;  // makes a shuffle write a zero byte

constexpr std::array<Shuffle, 256> CompressShuffles() {
  std::array<Shuffle, 256> shuffles = {};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::size_t place = 0;
    for (std::uint8_t word = 0; word < 8; ++word) {
      if ((mask >> word & 1) != 0) shuffles[mask].places[place++] = word;
    }
    while (place < 8) shuffles[mask].places[place++] = kNothing;
  }
  return shuffles;
}

constexpr std::array<Shuffle, 256> ExpandShuffles() {
  std::array<Shuffle, 256> shuffles = {};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::uint8_t word = 0;
    for (std::size_t place = 0; place < 8; ++place) {
      shuffles[mask].places[place] = (mask >> place & 1) != 0 ? word++ : kNothing;
    }
  }
  return shuffles;
}

// Permutations of the bytes of eight 16-bit words, for each mask.
struct ByteShuffle {
  alignas(16) std::array<std::uint8_t, 16> places;
};

constexpr std::array<ByteShuffle, 256> OfBytes(const std::array<Shuffle, 256>& shuffles) {
  std::array<ByteShuffle, 256> bytes = {};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint8_t word = shuffles[mask].places[i / 2];
      bytes[mask].places[i] =
          word == kNothing ? kNothing : static_cast<std::uint8_t>(std::size_t{2} * word + i % 2);
    }
  }
  return bytes;
}

constexpr std::array<Shuffle, 256> kCompress32 = CompressShuffles();
constexpr std::array<Shuffle, 256> kExpand32 = ExpandShuffles();
constexpr std::array<ByteShuffle, 256> kCompress16 = OfBytes(kCompress32);
constexpr std::array<ByteShuffle, 256> kExpand16 = OfBytes(kExpand32);

constexpr std::size_t kRegisterBytes = 32;

TIDEPOOL_AVX2 inline __m256i Load(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
TIDEPOOL_AVX2 inline void Store(std::byte* to, __m256i values) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), values);
}
// Stores of a row from two registers.
struct CachedStore {
  TIDEPOOL_AVX2 static void Half(std::byte* to, __m256i values) { Store(to, values); }
};
struct StreamingStore {
  TIDEPOOL_AVX2 static void Half(std::byte* to, __m256i values) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), values);
  }
};

struct Row {
  __m256i low;
  __m256i high;

  TIDEPOOL_AVX2 static Row At(const std::byte* from) {
    return {Load(from), Load(from + kRegisterBytes)};
  }
  template <typename Output>
  TIDEPOOL_AVX2 void StoreTo(std::byte* to) const {
    Output::Half(to, low);
    Output::Half(to + kRegisterBytes, high);
  }
};

// RowSums in registers.
struct Sums {
  Row plain;
  Row weighted;

  TIDEPOOL_AVX2 explicit Sums(const RowSums& sums)
      : plain(Row::At(reinterpret_cast<const std::byte*>(sums.plain.data()))),
        weighted(Row::At(reinterpret_cast<const std::byte*>(sums.weighted.data()))) {}
  TIDEPOOL_AVX2 void Add(const Row& row) {
    plain.low = _mm256_add_epi64(plain.low, row.low);
    plain.high = _mm256_add_epi64(plain.high, row.high);
    weighted.low = _mm256_add_epi64(weighted.low, plain.low);
    weighted.high = _mm256_add_epi64(weighted.high, plain.high);
  }
  TIDEPOOL_AVX2 void StoreTo(RowSums& sums) const {
    plain.StoreTo<CachedStore>(reinterpret_cast<std::byte*>(sums.plain.data()));
    weighted.StoreTo<CachedStore>(reinterpret_cast<std::byte*>(sums.weighted.data()));
  }
};

TIDEPOOL_AVX2 inline void Prefetch(const std::byte* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_NTA);
}

TIDEPOOL_AVX2 inline __m128i Load128(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
TIDEPOOL_AVX2 inline void Store128(std::byte* to, __m128i values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), values);
}

// Operations on a register of 32-bit words.
struct Words32 {
  using Word = std::uint32_t;
  static constexpr std::uint32_t kBits = 32;
  TIDEPOOL_AVX2 static __m256i Broadcast(std::uint32_t word) {
    return _mm256_set1_epi32(static_cast<int>(word));
  }
  TIDEPOOL_AVX2 static __m256i Left(__m256i values, __m128i bits) {
    return _mm256_sll_epi32(values, bits);
  }
  TIDEPOOL_AVX2 static __m256i Right(__m256i values, __m128i bits) {
    return _mm256_srl_epi32(values, bits);
  }
  TIDEPOOL_AVX2 static __m256i Minus(__m256i a, __m256i b) { return _mm256_sub_epi32(a, b); }
  TIDEPOOL_AVX2 static __m256i Plus(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
  TIDEPOOL_AVX2 static __m256i RotatedLeft(__m256i values) {
    return _mm256_or_si256(_mm256_slli_epi32(values, 1), _mm256_srli_epi32(values, 31));
  }
  TIDEPOOL_AVX2 static __m256i RotatedRight(__m256i values) {
    return _mm256_or_si256(_mm256_srli_epi32(values, 1), _mm256_slli_epi32(values, 31));
  }
  TIDEPOOL_AVX2 static __m256i Least(__m256i a, __m256i b) { return _mm256_min_epu32(a, b); }
  TIDEPOOL_AVX2 static __m256i Most(__m256i a, __m256i b) { return _mm256_max_epu32(a, b); }
  TIDEPOOL_AVX2 static __m256i SignedLeast(__m256i a, __m256i b) { return _mm256_min_epi32(a, b); }
  TIDEPOOL_AVX2 static __m256i SignedMost(__m256i a, __m256i b) { return _mm256_max_epi32(a, b); }
};

struct Words16 {
  using Word = std::uint16_t;
  static constexpr std::uint32_t kBits = 16;
  TIDEPOOL_AVX2 static __m256i Broadcast(std::uint32_t word) {
    return _mm256_set1_epi16(static_cast<short>(word));
  }
  TIDEPOOL_AVX2 static __m256i Left(__m256i values, __m128i bits) {
    return _mm256_sll_epi16(values, bits);
  }
  TIDEPOOL_AVX2 static __m256i Right(__m256i values, __m128i bits) {
    return _mm256_srl_epi16(values, bits);
  }
  TIDEPOOL_AVX2 static __m256i Minus(__m256i a, __m256i b) { return _mm256_sub_epi16(a, b); }
  TIDEPOOL_AVX2 static __m256i Plus(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
  TIDEPOOL_AVX2 static __m256i RotatedLeft(__m256i values) {
    return _mm256_or_si256(_mm256_slli_epi16(values, 1), _mm256_srli_epi16(values, 15));
  }
  TIDEPOOL_AVX2 static __m256i RotatedRight(__m256i values) {
    return _mm256_or_si256(_mm256_srli_epi16(values, 1), _mm256_slli_epi16(values, 15));
  }
  TIDEPOOL_AVX2 static __m256i Least(__m256i a, __m256i b) { return _mm256_min_epu16(a, b); }
  TIDEPOOL_AVX2 static __m256i Most(__m256i a, __m256i b) { return _mm256_max_epu16(a, b); }
  TIDEPOOL_AVX2 static __m256i SignedLeast(__m256i a, __m256i b) { return _mm256_min_epi16(a, b); }
  TIDEPOOL_AVX2 static __m256i SignedMost(__m256i a, __m256i b) { return _mm256_max_epi16(a, b); }
};

template <typename Word>
using Lanes = std::array<Word, kRegisterBytes / sizeof(Word)>;

template <typename Word>
TIDEPOOL_AVX2 inline Lanes<Word> LanesOf(__m256i values) {
  Lanes<Word> lanes;
  std::memcpy(&lanes, &values, sizeof(lanes));
  return lanes;
}

template <typename Words>
struct Range {
  __m256i least;
  __m256i most;
  __m256i signed_least;
  __m256i signed_most;

  TIDEPOOL_AVX2 static Range Empty() {
    const __m256i zero = _mm256_setzero_si256();
    return {_mm256_set1_epi32(-1), zero, zero, zero};
  }
  // Adds a register. `is_zero` has all bits set in words that are zero, so that these count as the
  // largest words.
  TIDEPOOL_AVX2 void Add(__m256i is_zero, __m256i values) {
    least = Words::Least(least, _mm256_or_si256(values, is_zero));
    most = Words::Most(most, values);
    signed_least = Words::SignedLeast(signed_least, values);
    signed_most = Words::SignedMost(signed_most, values);
  }
};

template <typename Word, typename Words>
TIDEPOOL_AVX2 inline Scan ScanOf(std::size_t bytes, const Range<Words>& range) {
  return FoldScan(static_cast<std::uint32_t>(bytes / sizeof(Word)), LanesOf<Word>(range.least),
                  LanesOf<Word>(range.most), LanesOf<Word>(range.signed_least),
                  LanesOf<Word>(range.signed_most));
}

TIDEPOOL_AVX2 inline __m256i Places32(const Shuffle& shuffle) {
  return _mm256_cvtepu8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(shuffle.places.data())));
}

TIDEPOOL_AVX2 Scan Scan32(const std::byte* block, const std::byte* next, std::byte* mask,
                          std::byte* words) {
  auto range = Range<Words32>::Empty();
  const __m256i zero = _mm256_setzero_si256();
  std::byte* end = words;
  for (std::size_t i = 0; i < kBlockBytes / kRegisterBytes; ++i) {
    Prefetch(next + i * kRegisterBytes);
    const __m256i values = Load(block + i * kRegisterBytes);
    const __m256i is_zero = _mm256_cmpeq_epi32(values, zero);
    const auto is_set =
        static_cast<std::uint8_t>(~_mm256_movemask_ps(_mm256_castsi256_ps(is_zero)));
    Store(end, _mm256_permutevar8x32_epi32(values, Places32(kCompress32[is_set])));
    end += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint32_t);
    mask[i] = std::byte{is_set};
    range.Add(is_zero, values);
  }
  return ScanOf<std::uint32_t>(static_cast<std::size_t>(end - words), range);
}

TIDEPOOL_AVX2 inline std::byte* Compress8(__m128i values, std::uint8_t is_set, std::byte* end) {
  const __m128i places =
      _mm_load_si128(reinterpret_cast<const __m128i*>(kCompress16[is_set].places.data()));
  Store128(end, _mm_shuffle_epi8(values, places));
  return end + std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint16_t);
}

TIDEPOOL_AVX2 Scan Scan16(const std::byte* block, const std::byte* next, std::byte* mask,
                          std::byte* words) {
  auto range = Range<Words16>::Empty();
  const __m256i zero = _mm256_setzero_si256();
  std::byte* end = words;
  for (std::size_t i = 0; i < kBlockBytes / kRegisterBytes; ++i) {
    Prefetch(next + i * kRegisterBytes);
    const __m256i values = Load(block + i * kRegisterBytes);
    const __m128i low = _mm256_castsi256_si128(values);
    const __m128i high = _mm256_extracti128_si256(values, 1);
    const __m256i is_zero = _mm256_cmpeq_epi16(values, zero);
    const auto is_set = static_cast<std::uint16_t>(~_mm_movemask_epi8(
        _mm_packs_epi16(_mm256_castsi256_si128(is_zero), _mm256_extracti128_si256(is_zero, 1))));
    end = Compress8(low, static_cast<std::uint8_t>(is_set), end);
    end = Compress8(high, static_cast<std::uint8_t>(is_set >> 8), end);
    std::memcpy(mask + i * sizeof(is_set), &is_set, sizeof(is_set));
    range.Add(is_zero, values);
  }
  return ScanOf<std::uint16_t>(static_cast<std::size_t>(end - words), range);
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX2 inline __m256i Values(const std::byte* words, __m256i base) {
  __m256i values = Load(words);
  if constexpr (kIsRotated) values = Words::RotatedLeft(values);
  return Words::Minus(values, base);
}

TIDEPOOL_AVX2 inline __m128i Count(std::uint32_t bits) {
  return _mm_cvtsi32_si128(static_cast<int>(bits));
}

template <typename Words, typename Output, bool kIsRotated>
TIDEPOOL_AVX2 void PackRows(const std::byte* words, const Packing& packing, std::byte* rows,
                            RowSums& row_sums) {
  const __m256i base = Words::Broadcast(packing.base);
  const std::byte* const end = words + packing.count * sizeof(typename Words::Word);
  const std::uint32_t bits = packing.bits;
  Sums sums(row_sums);
  Row row = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  std::uint32_t filled = 0;
  for (; words < end; words += kRowBytes) {
    const __m256i low = Values<Words, kIsRotated>(words, base);
    const __m256i high = Values<Words, kIsRotated>(words + kRegisterBytes, base);
    row.low = _mm256_or_si256(row.low, Words::Left(low, Count(filled)));
    row.high = _mm256_or_si256(row.high, Words::Left(high, Count(filled)));
    filled += bits;
    if (filled < Words::kBits) continue;
    row.template StoreTo<Output>(rows);
    sums.Add(row);
    rows += kRowBytes;
    filled -= Words::kBits;
    row = {Words::Right(low, Count(bits - filled)), Words::Right(high, Count(bits - filled))};
  }
  if (filled > 0) {
    row.template StoreTo<Output>(rows);
    sums.Add(row);
  }
  sums.StoreTo(row_sums);
}

template <typename Words, typename Output>
TIDEPOOL_AVX2 void Pack(const std::byte* words, const Packing& packing, std::byte* rows,
                        RowSums& sums) {
  return packing.rotated ? PackRows<Words, Output, true>(words, packing, rows, sums)
                         : PackRows<Words, Output, false>(words, packing, rows, sums);
}

template <typename Output>
TIDEPOOL_AVX2 void Copy(const std::byte* from, std::size_t bytes, std::byte* rows,
                        RowSums& row_sums) {
  Sums sums(row_sums);
  for (std::size_t at = 0; at < bytes; at += kRowBytes) {
    const Row row = Row::At(from + at);
    row.template StoreTo<Output>(rows + at);
    sums.Add(row);
  }
  sums.StoreTo(row_sums);
}

TIDEPOOL_AVX2 void Sum(const std::byte* rows, std::size_t bytes, RowSums& row_sums) {
  Sums sums(row_sums);
  for (std::size_t at = 0; at < bytes; at += kRowBytes) sums.Add(Row::At(rows + at));
  sums.StoreTo(row_sums);
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX2 inline void StoreWords(std::byte* words, __m256i values, __m256i value_mask,
                                     __m256i base) {
  values = Words::Plus(_mm256_and_si256(values, value_mask), base);
  if constexpr (kIsRotated) values = Words::RotatedRight(values);
  Store(words, values);
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX2 void UnpackRows(const std::byte* rows, const Packing& packing, std::byte* words,
                              RowSums& row_sums) {
  const __m256i base = Words::Broadcast(packing.base);
  const __m256i value_mask = Words::Broadcast((std::uint32_t{1} << packing.bits) - 1);
  const std::byte* const end = words + packing.count * sizeof(typename Words::Word);
  const std::uint32_t bits = packing.bits;
  Sums sums(row_sums);
  Row row = Row::At(rows);
  sums.Add(row);
  std::uint32_t read = 0;  // consumed bits of each word of the row; at most all
  for (; words < end; words += kRowBytes) {
    __m256i low = Words::Right(row.low, Count(read));
    __m256i high = Words::Right(row.high, Count(read));
    read += bits;
    if (read > Words::kBits) {
      rows += kRowBytes;
      row = Row::At(rows);
      sums.Add(row);
      read -= Words::kBits;
      low = _mm256_or_si256(low, Words::Left(row.low, Count(bits - read)));
      high = _mm256_or_si256(high, Words::Left(row.high, Count(bits - read)));
    }
    StoreWords<Words, kIsRotated>(words, low, value_mask, base);
    StoreWords<Words, kIsRotated>(words + kRegisterBytes, high, value_mask, base);
  }
  sums.StoreTo(row_sums);
}

template <typename Words>
TIDEPOOL_AVX2 void Unpack(const std::byte* rows, const Packing& packing, std::byte* words,
                          RowSums& sums) {
  return packing.rotated ? UnpackRows<Words, true>(rows, packing, words, sums)
                         : UnpackRows<Words, false>(rows, packing, words, sums);
}

template <typename Output>
TIDEPOOL_AVX2 std::uint32_t Expand32(const std::byte* mask, const std::byte* words,
                                     std::byte* block) {
  const __m256i bit_of_lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const std::byte* next = words;
  for (std::size_t i = 0; i < kBlockBytes / kRegisterBytes; ++i) {
    const auto is_set = static_cast<std::uint8_t>(mask[i]);
    const __m256i values = _mm256_permutevar8x32_epi32(Load(next), Places32(kExpand32[is_set]));
    const __m256i bits = _mm256_and_si256(_mm256_set1_epi32(is_set), bit_of_lane);
    const __m256i keep = _mm256_cmpeq_epi32(bits, bit_of_lane);
    Output::Half(block + i * kRegisterBytes, _mm256_and_si256(values, keep));
    next += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint32_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint32_t));
}

// Returns eight 16-bit words: the next words from `next` where `mask` has a bit, and zeros
// elsewhere.
TIDEPOOL_AVX2 inline __m128i Expanded8(std::byte mask, const std::byte*& next) {
  const auto is_set = static_cast<std::uint8_t>(mask);
  const __m128i places =
      _mm_load_si128(reinterpret_cast<const __m128i*>(kExpand16[is_set].places.data()));
  const __m128i values = _mm_shuffle_epi8(Load128(next), places);
  next += std::popcount(is_set) * sizeof(std::uint16_t);
  return values;
}

template <typename Output>
TIDEPOOL_AVX2 std::uint32_t Expand16(const std::byte* mask, const std::byte* words,
                                     std::byte* block) {
  const std::byte* next = words;
  for (std::size_t i = 0; i < kBlockBytes / kRegisterBytes; ++i) {
    const __m128i low = Expanded8(mask[2 * i], next);
    const __m128i high = Expanded8(mask[2 * i + 1], next);
    Output::Half(block + i * kRegisterBytes, _mm256_set_m128i(high, low));
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint16_t));
}

template <typename Output>
inline constexpr Writers kWriters32 = {Pack<Words32, Output>, Copy<Output>, Expand32<Output>};
template <typename Output>
inline constexpr Writers kWriters16 = {Pack<Words16, Output>, Copy<Output>, Expand16<Output>};

}  // namespace avx2

const Kernel kAvx2For32 = {avx2::Scan32, avx2::Sum, avx2::Unpack<avx2::Words32>,
                           avx2::kWriters32<avx2::CachedStore>,
                           avx2::kWriters32<avx2::StreamingStore>};
const Kernel kAvx2For16 = {avx2::Scan16, avx2::Sum, avx2::Unpack<avx2::Words16>,
                           avx2::kWriters16<avx2::CachedStore>,
                           avx2::kWriters16<avx2::StreamingStore>};

}  // namespace tidepool::zvc
#endif
