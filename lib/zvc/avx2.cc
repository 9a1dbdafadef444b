// The kernels for AVX2. A table says for each mask of eight words where they go: AVX2 has no
// instruction that does. A row is two registers.
#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>

#include "lib/zvc/kernels.h"

#define TIDEPOOL_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace tidepool::internal::zvc {
namespace avx2 {

// For each mask of eight words: which word comes to each place.
struct Shuffle {
  std::array<std::uint8_t, 8> places;
};
constexpr std::uint8_t kNothing = 0x80;  // what makes a zero of a byte in a shuffle

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

// The same for the bytes of 16-bit words.
struct ByteShuffle {
  alignas(16) std::array<std::uint8_t, 16> places;
};

constexpr std::array<ByteShuffle, 256> OfBytes(const std::array<Shuffle, 256>& shuffles) {
  std::array<ByteShuffle, 256> bytes = {};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint8_t word = shuffles[mask].places[i / 2];
      bytes[mask].places[i] =
          word == kNothing ? kNothing : static_cast<std::uint8_t>(2 * word + i % 2);
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
TIDEPOOL_AVX2 inline __m128i Load128(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
TIDEPOOL_AVX2 inline void Store128(std::byte* to, __m128i values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), values);
}

// The operations on a register of words of 32 bits.
struct Words32 {
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
};

struct Words16 {
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
};

// Least and most of the words of a block that are not zero: all words are made one less, so that
// zeros are larger than all others.
template <typename Words>
struct Range {
  __m256i least;
  __m256i most;

  TIDEPOOL_AVX2 static Range Empty() { return {_mm256_set1_epi32(-1), _mm256_setzero_si256()}; }
  TIDEPOOL_AVX2 void Add(__m256i values) {
    least = Words::Least(least, Words::Minus(values, Words::Broadcast(1)));
    most = Words::Most(most, values);
  }
};

template <typename Word, typename Words>
TIDEPOOL_AVX2 inline void Fold(const Range<Words>& range, std::uint32_t& least,
                               std::uint32_t& most) {
  std::array<Word, kRegisterBytes / sizeof(Word)> least_words;
  std::array<Word, kRegisterBytes / sizeof(Word)> most_words;
  std::memcpy(&least_words, &range.least, sizeof(least_words));
  std::memcpy(&most_words, &range.most, sizeof(most_words));
  Word smallest = least_words[0];
  Word largest = most_words[0];
  for (const Word word : least_words) smallest = word < smallest ? word : smallest;
  for (const Word word : most_words) largest = word > largest ? word : largest;
  least = static_cast<Word>(smallest + 1);
  most = largest;
}

TIDEPOOL_AVX2 inline __m256i Places32(const Shuffle& shuffle) {
  return _mm256_cvtepu8_epi32(
      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(shuffle.places.data())));
}

TIDEPOOL_AVX2 Scan Scan32(const std::byte* block, std::byte* mask, std::byte* words) {
  auto range = Range<Words32>::Empty();
  auto rotated = Range<Words32>::Empty();
  const __m256i zero = _mm256_setzero_si256();
  std::byte* end = words;
  for (std::size_t i = 0; i < kBlockBytes / kRegisterBytes; ++i) {
    const __m256i values = Load(block + i * kRegisterBytes);
    const __m256i is_zero = _mm256_cmpeq_epi32(values, zero);
    const auto is_set =
        static_cast<std::uint8_t>(~_mm256_movemask_ps(_mm256_castsi256_ps(is_zero)));
    Store(end, _mm256_permutevar8x32_epi32(values, Places32(kCompress32[is_set])));
    end += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint32_t);
    mask[i] = std::byte{is_set};
    range.Add(values);
    rotated.Add(Words32::RotatedLeft(values));
  }
  Scan scan;
  scan.count = static_cast<std::uint32_t>((end - words) / sizeof(std::uint32_t));
  Fold<std::uint32_t>(range, scan.least, scan.most);
  Fold<std::uint32_t>(rotated, scan.rotated_least, scan.rotated_most);
  return scan;
}

TIDEPOOL_AVX2 inline std::byte* Compress8(__m128i values, std::uint8_t is_set, std::byte* end) {
  const __m128i places =
      _mm_load_si128(reinterpret_cast<const __m128i*>(kCompress16[is_set].places.data()));
  Store128(end, _mm_shuffle_epi8(values, places));
  return end + std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint16_t);
}

TIDEPOOL_AVX2 Scan Scan16(const std::byte* block, std::byte* mask, std::byte* words) {
  auto range = Range<Words16>::Empty();
  auto rotated = Range<Words16>::Empty();
  const __m256i zero = _mm256_setzero_si256();
  std::byte* end = words;
  for (std::size_t i = 0; i < kBlockBytes / kRegisterBytes; ++i) {
    const __m256i values = Load(block + i * kRegisterBytes);
    const __m128i low = _mm256_castsi256_si128(values);
    const __m128i high = _mm256_extracti128_si256(values, 1);
    const __m256i is_zero = _mm256_cmpeq_epi16(values, zero);
    const auto is_set = static_cast<std::uint16_t>(~_mm_movemask_epi8(
        _mm_packs_epi16(_mm256_castsi256_si128(is_zero), _mm256_extracti128_si256(is_zero, 1))));
    end = Compress8(low, static_cast<std::uint8_t>(is_set), end);
    end = Compress8(high, static_cast<std::uint8_t>(is_set >> 8), end);
    std::memcpy(mask + i * sizeof(is_set), &is_set, sizeof(is_set));
    range.Add(values);
    rotated.Add(Words16::RotatedLeft(values));
  }
  Scan scan;
  scan.count = static_cast<std::uint32_t>((end - words) / sizeof(std::uint16_t));
  Fold<std::uint16_t>(range, scan.least, scan.most);
  Fold<std::uint16_t>(rotated, scan.rotated_least, scan.rotated_most);
  return scan;
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX2 inline __m256i Values(const std::byte* words, __m256i base) {
  __m256i values = Load(words);
  if constexpr (kIsRotated) values = Words::RotatedLeft(values);
  return Words::Minus(values, base);
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX2 void PackRows(const std::byte* words, const Packing& packing, std::byte* rows) {
  const __m256i base = Words::Broadcast(packing.base);
  const std::byte* const end = words + packing.count * (Words::kBits / 8);
  __m256i low = _mm256_setzero_si256();
  __m256i high = _mm256_setzero_si256();
  std::uint32_t filled = 0;
  for (; words < end; words += kRowBytes) {
    const __m256i low_values = Values<Words, kIsRotated>(words, base);
    const __m256i high_values = Values<Words, kIsRotated>(words + kRegisterBytes, base);
    const __m128i left = _mm_cvtsi32_si128(static_cast<int>(filled));
    low = _mm256_or_si256(low, Words::Left(low_values, left));
    high = _mm256_or_si256(high, Words::Left(high_values, left));
    filled += packing.bits;
    if (filled < Words::kBits) continue;
    Store(rows, low);
    Store(rows + kRegisterBytes, high);
    rows += kRowBytes;
    filled -= Words::kBits;
    const __m128i right = _mm_cvtsi32_si128(static_cast<int>(packing.bits - filled));
    low = Words::Right(low_values, right);
    high = Words::Right(high_values, right);
  }
  if (filled == 0) return;
  Store(rows, low);
  Store(rows + kRegisterBytes, high);
}

template <typename Words>
TIDEPOOL_AVX2 void Pack(const std::byte* words, const Packing& packing, std::byte* rows) {
  return packing.rotated ? PackRows<Words, true>(words, packing, rows)
                         : PackRows<Words, false>(words, packing, rows);
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX2 inline void StoreWords(std::byte* words, __m256i values, __m256i value_mask,
                                     __m256i base) {
  values = Words::Plus(_mm256_and_si256(values, value_mask), base);
  if constexpr (kIsRotated) values = Words::RotatedRight(values);
  Store(words, values);
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX2 void UnpackRows(const std::byte* rows, const Packing& packing, std::byte* words) {
  const __m256i base = Words::Broadcast(packing.base);
  const __m256i value_mask = Words::Broadcast((std::uint32_t{1} << packing.bits) - 1);
  const std::byte* const end = words + packing.count * (Words::kBits / 8);
  __m256i low = Load(rows);
  __m256i high = Load(rows + kRegisterBytes);
  std::uint32_t read = 0;  // bits of each word of the row; at most all
  for (; words < end; words += kRowBytes) {
    const __m128i right = _mm_cvtsi32_si128(static_cast<int>(read));
    __m256i low_values = Words::Right(low, right);
    __m256i high_values = Words::Right(high, right);
    read += packing.bits;
    if (read > Words::kBits) {
      rows += kRowBytes;
      low = Load(rows);
      high = Load(rows + kRegisterBytes);
      read -= Words::kBits;
      const __m128i left = _mm_cvtsi32_si128(static_cast<int>(packing.bits - read));
      low_values = _mm256_or_si256(low_values, Words::Left(low, left));
      high_values = _mm256_or_si256(high_values, Words::Left(high, left));
    }
    StoreWords<Words, kIsRotated>(words, low_values, value_mask, base);
    StoreWords<Words, kIsRotated>(words + kRegisterBytes, high_values, value_mask, base);
  }
}

template <typename Words>
TIDEPOOL_AVX2 void Unpack(const std::byte* rows, const Packing& packing, std::byte* words) {
  return packing.rotated ? UnpackRows<Words, true>(rows, packing, words)
                         : UnpackRows<Words, false>(rows, packing, words);
}

TIDEPOOL_AVX2 std::uint32_t Expand32(const std::byte* mask, const std::byte* words,
                                     std::byte* block) {
  const __m256i bit_of_lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const std::byte* next = words;
  for (std::size_t i = 0; i < kBlockBytes / kRegisterBytes; ++i) {
    const auto is_set = static_cast<std::uint8_t>(mask[i]);
    const __m256i values = _mm256_permutevar8x32_epi32(Load(next), Places32(kExpand32[is_set]));
    const __m256i bits = _mm256_and_si256(_mm256_set1_epi32(is_set), bit_of_lane);
    const __m256i keep = _mm256_cmpeq_epi32(bits, bit_of_lane);
    Store(block + i * kRegisterBytes, _mm256_and_si256(values, keep));
    next += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint32_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint32_t));
}

TIDEPOOL_AVX2 std::uint32_t Expand16(const std::byte* mask, const std::byte* words,
                                     std::byte* block) {
  const std::byte* next = words;
  for (std::size_t i = 0; i < kBlockBytes / sizeof(__m128i); ++i) {
    const auto is_set = static_cast<std::uint8_t>(mask[i]);
    const __m128i places =
        _mm_load_si128(reinterpret_cast<const __m128i*>(kExpand16[is_set].places.data()));
    Store128(block + i * sizeof(__m128i), _mm_shuffle_epi8(Load128(next), places));
    next += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint16_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint16_t));
}

TIDEPOOL_AVX2 RowSums Sum(const std::byte* rows, std::size_t bytes) {
  __m256i low = _mm256_setzero_si256();
  __m256i high = _mm256_setzero_si256();
  __m256i low_weighted = _mm256_setzero_si256();
  __m256i high_weighted = _mm256_setzero_si256();
  for (const std::byte* const end = rows + bytes; rows != end; rows += kRowBytes) {
    low = _mm256_add_epi64(low, Load(rows));
    high = _mm256_add_epi64(high, Load(rows + kRegisterBytes));
    low_weighted = _mm256_add_epi64(low_weighted, low);
    high_weighted = _mm256_add_epi64(high_weighted, high);
  }
  RowSums sums;
  std::memcpy(sums.plain.data(), &low, sizeof(low));
  std::memcpy(sums.plain.data() + kSumLanes / 2, &high, sizeof(high));
  std::memcpy(sums.weighted.data(), &low_weighted, sizeof(low));
  std::memcpy(sums.weighted.data() + kSumLanes / 2, &high_weighted, sizeof(high));
  return sums;
}

}  // namespace avx2

const Kernel kAvx2For32 = {avx2::Scan32, avx2::Pack<avx2::Words32>, avx2::Unpack<avx2::Words32>,
                           avx2::Expand32, avx2::Sum};
const Kernel kAvx2For16 = {avx2::Scan16, avx2::Pack<avx2::Words16>, avx2::Unpack<avx2::Words16>,
                           avx2::Expand16, avx2::Sum};

}  // namespace tidepool::internal::zvc
#endif
