// The kernels for AVX-512. Words are compressed into a register that is stored whole: the form that
// compresses into memory is microcoded on some processors. Only 16-bit words need VBMI2, without
// which they are widened.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes its own undefined registers for ours (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <bit>
#include <cstring>

#include "lib/zvc/kernels.h"

#define TIDEPOOL_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,lzcnt,popcnt")))
#define TIDEPOOL_VBMI2 \
  __attribute__((      \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt")))

namespace tidepool::internal::zvc {
namespace avx512 {

TIDEPOOL_AVX512 inline __m512i Load(const std::byte* from) { return _mm512_loadu_si512(from); }
TIDEPOOL_AVX512 inline void Store(std::byte* to, __m512i row) { _mm512_storeu_si512(to, row); }

// The operations on a row of words of 32 bits.
struct Words32 {
  static constexpr std::uint32_t kBits = 32;
  TIDEPOOL_AVX512 static __m512i Broadcast(std::uint32_t word) {
    return _mm512_set1_epi32(static_cast<int>(word));
  }
  TIDEPOOL_AVX512 static __m512i Left(__m512i row, __m128i bits) {
    return _mm512_sll_epi32(row, bits);
  }
  TIDEPOOL_AVX512 static __m512i Right(__m512i row, __m128i bits) {
    return _mm512_srl_epi32(row, bits);
  }
  TIDEPOOL_AVX512 static __m512i Minus(__m512i a, __m512i b) { return _mm512_sub_epi32(a, b); }
  TIDEPOOL_AVX512 static __m512i Plus(__m512i a, __m512i b) { return _mm512_add_epi32(a, b); }
  TIDEPOOL_AVX512 static __m512i RotatedLeft(__m512i row) {
    return _mm512_or_si512(_mm512_slli_epi32(row, 1), _mm512_srli_epi32(row, 31));
  }
  TIDEPOOL_AVX512 static __m512i RotatedRight(__m512i row) {
    return _mm512_or_si512(_mm512_srli_epi32(row, 1), _mm512_slli_epi32(row, 31));
  }
  TIDEPOOL_AVX512 static __m512i Least(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
  TIDEPOOL_AVX512 static __m512i Most(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
};

struct Words16 {
  static constexpr std::uint32_t kBits = 16;
  TIDEPOOL_AVX512 static __m512i Broadcast(std::uint32_t word) {
    return _mm512_set1_epi16(static_cast<short>(word));
  }
  TIDEPOOL_AVX512 static __m512i Left(__m512i row, __m128i bits) {
    return _mm512_sll_epi16(row, bits);
  }
  TIDEPOOL_AVX512 static __m512i Right(__m512i row, __m128i bits) {
    return _mm512_srl_epi16(row, bits);
  }
  TIDEPOOL_AVX512 static __m512i Minus(__m512i a, __m512i b) { return _mm512_sub_epi16(a, b); }
  TIDEPOOL_AVX512 static __m512i Plus(__m512i a, __m512i b) { return _mm512_add_epi16(a, b); }
  TIDEPOOL_AVX512 static __m512i RotatedLeft(__m512i row) {
    return _mm512_or_si512(_mm512_slli_epi16(row, 1), _mm512_srli_epi16(row, 15));
  }
  TIDEPOOL_AVX512 static __m512i RotatedRight(__m512i row) {
    return _mm512_or_si512(_mm512_srli_epi16(row, 1), _mm512_slli_epi16(row, 15));
  }
  TIDEPOOL_AVX512 static __m512i Least(__m512i a, __m512i b) { return _mm512_min_epu16(a, b); }
  TIDEPOOL_AVX512 static __m512i Most(__m512i a, __m512i b) { return _mm512_max_epu16(a, b); }
};

// Least and most of the words of a block that are not zero: all words are made one less, so that
// zeros are larger than all others.
template <typename Words>
struct Range {
  __m512i least;
  __m512i most;

  TIDEPOOL_AVX512 static Range Empty() { return {_mm512_set1_epi32(-1), _mm512_setzero_si512()}; }
  TIDEPOOL_AVX512 void Add(__m512i row) {
    least = Words::Least(least, Words::Minus(row, Words::Broadcast(1)));
    most = Words::Most(most, row);
  }
};

template <typename Word>
void Fold(const std::byte* least, const std::byte* most, std::uint32_t& least_word,
          std::uint32_t& most_word) {
  Word smallest = static_cast<Word>(~Word{0});
  Word largest = 0;
  for (std::size_t at = 0; at < kRowBytes; at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, least + at, sizeof(word));
    smallest = word < smallest ? word : smallest;
    std::memcpy(&word, most + at, sizeof(word));
    largest = word > largest ? word : largest;
  }
  least_word = static_cast<Word>(smallest + 1);
  most_word = largest;
}

template <typename Word, typename Words>
TIDEPOOL_AVX512 inline void Fold(const Range<Words>& range, std::uint32_t& least,
                                 std::uint32_t& most) {
  alignas(kRowBytes) std::byte least_row[kRowBytes];
  alignas(kRowBytes) std::byte most_row[kRowBytes];
  Store(least_row, range.least);
  Store(most_row, range.most);
  Fold<Word>(least_row, most_row, least, most);
}

TIDEPOOL_AVX512 Scan Scan32(const std::byte* block, std::byte* mask, std::byte* words) {
  auto range = Range<Words32>::Empty();
  auto rotated = Range<Words32>::Empty();
  std::byte* end = words;
  for (std::size_t row = 0; row < kBlockBytes / kRowBytes; ++row) {
    const __m512i values = Load(block + row * kRowBytes);
    const __mmask16 is_set = _mm512_test_epi32_mask(values, values);
    Store(end, _mm512_maskz_compress_epi32(is_set, values));
    end += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint32_t);
    std::memcpy(mask + row * sizeof(is_set), &is_set, sizeof(is_set));
    range.Add(values);
    rotated.Add(_mm512_rol_epi32(values, 1));
  }
  Scan scan;
  scan.count = static_cast<std::uint32_t>((end - words) / sizeof(std::uint32_t));
  Fold<std::uint32_t>(range, scan.least, scan.most);
  Fold<std::uint32_t>(rotated, scan.rotated_least, scan.rotated_most);
  return scan;
}

// Widened, because nothing else compresses 16-bit words. Writes half a row.
TIDEPOOL_AVX512 inline void CompressHalf(__m256i values, __mmask16 is_set, std::byte* words) {
  const __m512i wide = _mm512_maskz_compress_epi32(is_set, _mm512_cvtepu16_epi32(values));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm512_cvtepi32_epi16(wide));
}

TIDEPOOL_AVX512 Scan Scan16(const std::byte* block, std::byte* mask, std::byte* words) {
  auto range = Range<Words16>::Empty();
  auto rotated = Range<Words16>::Empty();
  std::byte* end = words;
  for (std::size_t row = 0; row < kBlockBytes / kRowBytes; ++row) {
    const __m512i values = Load(block + row * kRowBytes);
    const __mmask32 is_set = _mm512_test_epi16_mask(values, values);
    const auto low = static_cast<__mmask16>(is_set);
    const auto high = static_cast<__mmask16>(is_set >> 16);
    CompressHalf(_mm512_castsi512_si256(values), low, end);
    end += std::popcount(static_cast<std::uint32_t>(low)) * sizeof(std::uint16_t);
    CompressHalf(_mm512_extracti64x4_epi64(values, 1), high, end);
    end += std::popcount(static_cast<std::uint32_t>(high)) * sizeof(std::uint16_t);
    std::memcpy(mask + row * sizeof(is_set), &is_set, sizeof(is_set));
    range.Add(values);
    rotated.Add(Words16::RotatedLeft(values));
  }
  Scan scan;
  scan.count = static_cast<std::uint32_t>((end - words) / sizeof(std::uint16_t));
  Fold<std::uint16_t>(range, scan.least, scan.most);
  Fold<std::uint16_t>(rotated, scan.rotated_least, scan.rotated_most);
  return scan;
}

TIDEPOOL_VBMI2 Scan Scan16Vbmi2(const std::byte* block, std::byte* mask, std::byte* words) {
  auto range = Range<Words16>::Empty();
  auto rotated = Range<Words16>::Empty();
  std::byte* end = words;
  for (std::size_t row = 0; row < kBlockBytes / kRowBytes; ++row) {
    const __m512i values = Load(block + row * kRowBytes);
    const __mmask32 is_set = _mm512_test_epi16_mask(values, values);
    Store(end, _mm512_maskz_compress_epi16(is_set, values));
    end += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint16_t);
    std::memcpy(mask + row * sizeof(is_set), &is_set, sizeof(is_set));
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
TIDEPOOL_AVX512 void PackRows(const std::byte* words, const Packing& packing, std::byte* rows) {
  const __m512i base = Words::Broadcast(packing.base);
  const std::byte* const end = words + packing.count * (Words::kBits / 8);
  __m512i row = _mm512_setzero_si512();
  std::uint32_t filled = 0;
  for (; words < end; words += kRowBytes) {
    __m512i values = Load(words);
    if constexpr (kIsRotated) values = Words::RotatedLeft(values);
    values = Words::Minus(values, base);
    row = _mm512_or_si512(row, Words::Left(values, _mm_cvtsi32_si128(static_cast<int>(filled))));
    filled += packing.bits;
    if (filled < Words::kBits) continue;
    Store(rows, row);
    rows += kRowBytes;
    filled -= Words::kBits;
    row = Words::Right(values, _mm_cvtsi32_si128(static_cast<int>(packing.bits - filled)));
  }
  if (filled > 0) Store(rows, row);
}

template <typename Words>
TIDEPOOL_AVX512 void Pack(const std::byte* words, const Packing& packing, std::byte* rows) {
  return packing.rotated ? PackRows<Words, true>(words, packing, rows)
                         : PackRows<Words, false>(words, packing, rows);
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX512 void UnpackRows(const std::byte* rows, const Packing& packing, std::byte* words) {
  const __m512i base = Words::Broadcast(packing.base);
  const __m512i value_mask = Words::Broadcast((std::uint32_t{1} << packing.bits) - 1);
  const std::byte* const end = words + packing.count * (Words::kBits / 8);
  __m512i row = Load(rows);
  std::uint32_t read = 0;  // bits of `row`; at most all
  for (; words < end; words += kRowBytes) {
    __m512i values = Words::Right(row, _mm_cvtsi32_si128(static_cast<int>(read)));
    read += packing.bits;
    if (read > Words::kBits) {
      rows += kRowBytes;
      row = Load(rows);
      read -= Words::kBits;
      const auto had = static_cast<int>(packing.bits - read);
      values = _mm512_or_si512(values, Words::Left(row, _mm_cvtsi32_si128(had)));
    }
    values = Words::Plus(_mm512_and_si512(values, value_mask), base);
    if constexpr (kIsRotated) values = Words::RotatedRight(values);
    Store(words, values);
  }
}

template <typename Words>
TIDEPOOL_AVX512 void Unpack(const std::byte* rows, const Packing& packing, std::byte* words) {
  return packing.rotated ? UnpackRows<Words, true>(rows, packing, words)
                         : UnpackRows<Words, false>(rows, packing, words);
}

TIDEPOOL_AVX512 std::uint32_t Expand32(const std::byte* mask, const std::byte* words,
                                       std::byte* block) {
  const std::byte* next = words;
  for (std::size_t row = 0; row < kBlockBytes / kRowBytes; ++row) {
    __mmask16 is_set;
    std::memcpy(&is_set, mask + row * sizeof(is_set), sizeof(is_set));
    Store(block + row * kRowBytes, _mm512_maskz_expand_epi32(is_set, Load(next)));
    next += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint32_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint32_t));
}

TIDEPOOL_AVX512 inline void ExpandHalf(const std::byte* words, __mmask16 is_set,
                                       std::byte* output) {
  const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
  const __m512i wide = _mm512_maskz_expand_epi32(is_set, _mm512_cvtepu16_epi32(values));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), _mm512_cvtepi32_epi16(wide));
}

TIDEPOOL_AVX512 std::uint32_t Expand16(const std::byte* mask, const std::byte* words,
                                       std::byte* block) {
  const std::byte* next = words;
  for (std::size_t half = 0; half < 2 * kBlockBytes / kRowBytes; ++half) {
    __mmask16 is_set;
    std::memcpy(&is_set, mask + half * sizeof(is_set), sizeof(is_set));
    ExpandHalf(next, is_set, block + half * (kRowBytes / 2));
    next += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint16_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint16_t));
}

TIDEPOOL_VBMI2 std::uint32_t Expand16Vbmi2(const std::byte* mask, const std::byte* words,
                                           std::byte* block) {
  const std::byte* next = words;
  for (std::size_t row = 0; row < kBlockBytes / kRowBytes; ++row) {
    __mmask32 is_set;
    std::memcpy(&is_set, mask + row * sizeof(is_set), sizeof(is_set));
    Store(block + row * kRowBytes, _mm512_maskz_expand_epi16(is_set, Load(next)));
    next += std::popcount(static_cast<std::uint32_t>(is_set)) * sizeof(std::uint16_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint16_t));
}

TIDEPOOL_AVX512 RowSums Sum(const std::byte* rows, std::size_t bytes) {
  __m512i plain = _mm512_setzero_si512();
  __m512i weighted = _mm512_setzero_si512();
  for (const std::byte* const end = rows + bytes; rows != end; rows += kRowBytes) {
    plain = _mm512_add_epi64(plain, Load(rows));
    weighted = _mm512_add_epi64(weighted, plain);
  }
  RowSums sums;
  _mm512_storeu_si512(sums.plain.data(), plain);
  _mm512_storeu_si512(sums.weighted.data(), weighted);
  return sums;
}

}  // namespace avx512

const Kernel kAvx512For32 = {avx512::Scan32, avx512::Pack<avx512::Words32>,
                             avx512::Unpack<avx512::Words32>, avx512::Expand32, avx512::Sum};
const Kernel kAvx512For16 = {avx512::Scan16, avx512::Pack<avx512::Words16>,
                             avx512::Unpack<avx512::Words16>, avx512::Expand16, avx512::Sum};
const Kernel kAvx512Vbmi2For16 = {avx512::Scan16Vbmi2, avx512::Pack<avx512::Words16>,
                                  avx512::Unpack<avx512::Words16>, avx512::Expand16Vbmi2,
                                  avx512::Sum};

}  // namespace tidepool::internal::zvc
#endif
