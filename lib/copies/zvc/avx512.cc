// SPDX-License-Identifier: Apache-2.0
// Kernels for AVX-512. Words are compressed into a register that is stored whole, because the
// compress-to-memory form is microcoded on some processors. Only 16-bit words need VBMI2; without
// it they are widened to 32 bits.
#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns about undefined registers of its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <array>
#include <bit>
#include <cstring>

#include "lib/copies/zvc/kernels.h"

#define TIDEPOOL_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi,bmi2,lzcnt,popcnt")))
#define TIDEPOOL_VBMI2 \
  __attribute__((      \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt")))

namespace tidepool::zvc {
namespace avx512 {

TIDEPOOL_AVX512 inline __m512i Load(const std::byte* from) { return _mm512_loadu_si512(from); }
TIDEPOOL_AVX512 inline void Store(std::byte* to, __m512i row) { _mm512_storeu_si512(to, row); }

struct CachedStore {
  TIDEPOOL_AVX512 static void Row(std::byte* to, __m512i row) { Store(to, row); }
};
struct StreamingStore {
  TIDEPOOL_AVX512 static void Row(std::byte* to, __m512i row) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), row);
  }
};

// RowSums in registers.
struct Sums {
  __m512i plain;
  __m512i weighted;

  TIDEPOOL_AVX512 explicit Sums(const RowSums& sums)
      : plain(_mm512_loadu_si512(sums.plain.data())),
        weighted(_mm512_loadu_si512(sums.weighted.data())) {}
  TIDEPOOL_AVX512 void Add(__m512i row) {
    plain = _mm512_add_epi64(plain, row);
    weighted = _mm512_add_epi64(weighted, plain);
  }
  TIDEPOOL_AVX512 void StoreTo(RowSums& sums) const {
    _mm512_storeu_si512(sums.plain.data(), plain);
    _mm512_storeu_si512(sums.weighted.data(), weighted);
  }
};

// Operations on a row of 32-bit words.
struct Words32 {
  using Word = std::uint32_t;
  using Mask = __mmask16;
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
  TIDEPOOL_AVX512 static __m512i RotatedLeft(__m512i row) { return _mm512_rol_epi32(row, 1); }
  TIDEPOOL_AVX512 static __m512i RotatedRight(__m512i row) { return _mm512_ror_epi32(row, 1); }
  TIDEPOOL_AVX512 static Mask NotZero(__m512i row) { return _mm512_test_epi32_mask(row, row); }
  // Returns the minimum of `least` and the words of `row` in `is_set`, lane by lane.
  TIDEPOOL_AVX512 static __m512i Least(__m512i least, Mask is_set, __m512i row) {
    return _mm512_mask_min_epu32(least, is_set, least, row);
  }
  TIDEPOOL_AVX512 static __m512i Most(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
  TIDEPOOL_AVX512 static __m512i SignedLeast(__m512i a, __m512i b) {
    return _mm512_min_epi32(a, b);
  }
  TIDEPOOL_AVX512 static __m512i SignedMost(__m512i a, __m512i b) { return _mm512_max_epi32(a, b); }
};

struct Words16 {
  using Word = std::uint16_t;
  using Mask = __mmask32;
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
  TIDEPOOL_AVX512 static Mask NotZero(__m512i row) { return _mm512_test_epi16_mask(row, row); }
  // Returns the minimum of `least` and the words of `row` in `is_set`, lane by lane.
  TIDEPOOL_AVX512 static __m512i Least(__m512i least, Mask is_set, __m512i row) {
    return _mm512_mask_min_epu16(least, is_set, least, row);
  }
  TIDEPOOL_AVX512 static __m512i Most(__m512i a, __m512i b) { return _mm512_max_epu16(a, b); }
  TIDEPOOL_AVX512 static __m512i SignedLeast(__m512i a, __m512i b) {
    return _mm512_min_epi16(a, b);
  }
  TIDEPOOL_AVX512 static __m512i SignedMost(__m512i a, __m512i b) { return _mm512_max_epi16(a, b); }
};

template <typename Word>
using Lanes = std::array<Word, kRowBytes / sizeof(Word)>;

template <typename Word>
TIDEPOOL_AVX512 inline Lanes<Word> LanesOf(__m512i row) {
  Lanes<Word> lanes;
  std::memcpy(&lanes, &row, sizeof(lanes));
  return lanes;
}

// Tracks the target of each row's non-zero words, and the ranges of all rows.
template <typename Words>
class RowScanner {
 public:
  using Word = typename Words::Word;
  using Mask = typename Words::Mask;

  TIDEPOOL_AVX512 RowScanner(std::byte* mask, std::byte* words)
      : mask_(mask),
        words_(words),
        end_(words),
        least_(_mm512_set1_epi32(-1)),
        most_(_mm512_setzero_si512()),
        signed_least_(_mm512_setzero_si512()),
        signed_most_(_mm512_setzero_si512()) {}

  // Address for the non-zero words of the next row.
  std::byte* end() const { return end_; }
  TIDEPOOL_AVX512 void Add(__m512i row, Mask is_set) {
    std::memcpy(mask_, &is_set, sizeof(is_set));
    mask_ += sizeof(is_set);
    end_ += std::popcount(is_set) * sizeof(Word);
    least_ = Words::Least(least_, is_set, row);
    most_ = Words::Most(most_, row);
    signed_least_ = Words::SignedLeast(signed_least_, row);
    signed_most_ = Words::SignedMost(signed_most_, row);
  }
  TIDEPOOL_AVX512 Scan Finish() const {
    return FoldScan(static_cast<std::uint32_t>((end_ - words_) / sizeof(Word)),
                    LanesOf<Word>(least_), LanesOf<Word>(most_), LanesOf<Word>(signed_least_),
                    LanesOf<Word>(signed_most_));
  }

 private:
  std::byte* mask_;
  std::byte* const words_;
  std::byte* end_;
  __m512i least_;
  __m512i most_;
  __m512i signed_least_;
  __m512i signed_most_;
};

TIDEPOOL_AVX512 inline void Prefetch(const std::byte* from) {
  _mm_prefetch(reinterpret_cast<const char*>(from), _MM_HINT_NTA);
}

TIDEPOOL_AVX512 Scan Scan32(const std::byte* block, const std::byte* next, std::byte* mask,
                            std::byte* words) {
  RowScanner<Words32> scanner(mask, words);
  for (std::size_t at = 0; at < kBlockBytes; at += kRowBytes) {
    Prefetch(next + at);
    const __m512i row = Load(block + at);
    const __mmask16 is_set = Words32::NotZero(row);
    Store(scanner.end(), _mm512_maskz_compress_epi32(is_set, row));
    scanner.Add(row, is_set);
  }
  return scanner.Finish();
}

// Stores half a row of non-zero words by widening them: without VBMI2 no instruction compresses
// 16-bit words.
TIDEPOOL_AVX512 inline void CompressHalf(__m256i values, __mmask16 is_set, std::byte* words) {
  const __m512i wide = _mm512_maskz_compress_epi32(is_set, _mm512_cvtepu16_epi32(values));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm512_cvtepi32_epi16(wide));
}

TIDEPOOL_AVX512 Scan Scan16(const std::byte* block, const std::byte* next, std::byte* mask,
                            std::byte* words) {
  RowScanner<Words16> scanner(mask, words);
  for (std::size_t at = 0; at < kBlockBytes; at += kRowBytes) {
    Prefetch(next + at);
    const __m512i row = Load(block + at);
    const __mmask32 is_set = Words16::NotZero(row);
    const auto low = static_cast<__mmask16>(is_set);
    CompressHalf(_mm512_castsi512_si256(row), low, scanner.end());
    CompressHalf(_mm512_extracti64x4_epi64(row, 1), static_cast<__mmask16>(is_set >> 16),
                 scanner.end() + std::popcount(low) * sizeof(std::uint16_t));
    scanner.Add(row, is_set);
  }
  return scanner.Finish();
}

TIDEPOOL_VBMI2 Scan Scan16Vbmi2(const std::byte* block, const std::byte* next, std::byte* mask,
                                std::byte* words) {
  RowScanner<Words16> scanner(mask, words);
  for (std::size_t at = 0; at < kBlockBytes; at += kRowBytes) {
    Prefetch(next + at);
    const __m512i row = Load(block + at);
    const __mmask32 is_set = Words16::NotZero(row);
    Store(scanner.end(), _mm512_maskz_compress_epi16(is_set, row));
    scanner.Add(row, is_set);
  }
  return scanner.Finish();
}

TIDEPOOL_AVX512 inline __m128i Count(std::uint32_t bits) {
  return _mm_cvtsi32_si128(static_cast<int>(bits));
}

template <typename Words, typename Output, bool kIsRotated>
TIDEPOOL_AVX512 void PackRows(const std::byte* words, const Packing& packing, std::byte* rows,
                              RowSums& row_sums) {
  const __m512i base = Words::Broadcast(packing.base);
  const std::byte* const end = words + packing.count * sizeof(typename Words::Word);
  const std::uint32_t bits = packing.bits;
  Sums sums(row_sums);
  __m512i row = _mm512_setzero_si512();
  std::uint32_t filled = 0;
  for (; words < end; words += kRowBytes) {
    __m512i values = Load(words);
    if constexpr (kIsRotated) values = Words::RotatedLeft(values);
    values = Words::Minus(values, base);
    row = _mm512_or_si512(row, Words::Left(values, Count(filled)));
    filled += bits;
    if (filled < Words::kBits) continue;
    Output::Row(rows, row);
    sums.Add(row);
    rows += kRowBytes;
    filled -= Words::kBits;
    row = Words::Right(values, Count(bits - filled));
  }
  if (filled > 0) {
    Output::Row(rows, row);
    sums.Add(row);
  }
  sums.StoreTo(row_sums);
}

template <typename Words, typename Output>
TIDEPOOL_AVX512 void Pack(const std::byte* words, const Packing& packing, std::byte* rows,
                          RowSums& sums) {
  return packing.rotated ? PackRows<Words, Output, true>(words, packing, rows, sums)
                         : PackRows<Words, Output, false>(words, packing, rows, sums);
}

template <typename Output>
TIDEPOOL_AVX512 void Copy(const std::byte* from, std::size_t bytes, std::byte* rows,
                          RowSums& row_sums) {
  Sums sums(row_sums);
  for (std::size_t at = 0; at < bytes; at += kRowBytes) {
    const __m512i row = Load(from + at);
    Output::Row(rows + at, row);
    sums.Add(row);
  }
  sums.StoreTo(row_sums);
}

TIDEPOOL_AVX512 void Sum(const std::byte* rows, std::size_t bytes, RowSums& row_sums) {
  Sums sums(row_sums);
  for (std::size_t at = 0; at < bytes; at += kRowBytes) sums.Add(Load(rows + at));
  sums.StoreTo(row_sums);
}

template <typename Words, bool kIsRotated>
TIDEPOOL_AVX512 void UnpackRows(const std::byte* rows, const Packing& packing, std::byte* words,
                                RowSums& row_sums) {
  const __m512i base = Words::Broadcast(packing.base);
  const __m512i value_mask = Words::Broadcast((std::uint32_t{1} << packing.bits) - 1);
  const std::byte* const end = words + packing.count * sizeof(typename Words::Word);
  const std::uint32_t bits = packing.bits;
  Sums sums(row_sums);
  __m512i row = Load(rows);
  sums.Add(row);
  std::uint32_t read = 0;  // consumed bits of each word of the row; at most all
  for (; words < end; words += kRowBytes) {
    __m512i values = Words::Right(row, Count(read));
    read += bits;
    if (read > Words::kBits) {
      rows += kRowBytes;
      row = Load(rows);
      sums.Add(row);
      read -= Words::kBits;
      values = _mm512_or_si512(values, Words::Left(row, Count(bits - read)));
    }
    values = Words::Plus(_mm512_and_si512(values, value_mask), base);
    if constexpr (kIsRotated) values = Words::RotatedRight(values);
    Store(words, values);
  }
  sums.StoreTo(row_sums);
}

template <typename Words>
TIDEPOOL_AVX512 void Unpack(const std::byte* rows, const Packing& packing, std::byte* words,
                            RowSums& sums) {
  return packing.rotated ? UnpackRows<Words, true>(rows, packing, words, sums)
                         : UnpackRows<Words, false>(rows, packing, words, sums);
}

template <typename Mask>
Mask MaskAt(const std::byte* mask, std::size_t row) {
  Mask is_set;
  std::memcpy(&is_set, mask + row * sizeof(is_set), sizeof(is_set));
  return is_set;
}

template <typename Output>
TIDEPOOL_AVX512 std::uint32_t Expand32(const std::byte* mask, const std::byte* words,
                                       std::byte* block) {
  const std::byte* next = words;
  for (std::size_t row = 0; row < kBlockBytes / kRowBytes; ++row) {
    const auto is_set = MaskAt<__mmask16>(mask, row);
    Output::Row(block + row * kRowBytes, _mm512_maskz_expand_epi32(is_set, Load(next)));
    next += std::popcount(is_set) * sizeof(std::uint32_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint32_t));
}

TIDEPOOL_AVX512 inline __m256i ExpandedHalf(const std::byte* words, __mmask16 is_set) {
  const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
  const __m512i wide = _mm512_maskz_expand_epi32(is_set, _mm512_cvtepu16_epi32(values));
  return _mm512_cvtepi32_epi16(wide);
}

template <typename Output>
TIDEPOOL_AVX512 std::uint32_t Expand16(const std::byte* mask, const std::byte* words,
                                       std::byte* block) {
  const std::byte* next = words;
  for (std::size_t row = 0; row < kBlockBytes / kRowBytes; ++row) {
    const auto low = MaskAt<__mmask16>(mask, 2 * row);
    const auto high = MaskAt<__mmask16>(mask, 2 * row + 1);
    const std::byte* const middle = next + std::popcount(low) * sizeof(std::uint16_t);
    Output::Row(block + row * kRowBytes,
                _mm512_inserti64x4(_mm512_castsi256_si512(ExpandedHalf(next, low)),
                                   ExpandedHalf(middle, high), 1));
    next = middle + std::popcount(high) * sizeof(std::uint16_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint16_t));
}

template <typename Output>
TIDEPOOL_VBMI2 std::uint32_t Expand16Vbmi2(const std::byte* mask, const std::byte* words,
                                           std::byte* block) {
  const std::byte* next = words;
  for (std::size_t row = 0; row < kBlockBytes / kRowBytes; ++row) {
    const auto is_set = MaskAt<__mmask32>(mask, row);
    Output::Row(block + row * kRowBytes, _mm512_maskz_expand_epi16(is_set, Load(next)));
    next += std::popcount(is_set) * sizeof(std::uint16_t);
  }
  return static_cast<std::uint32_t>((next - words) / sizeof(std::uint16_t));
}

template <typename Output>
inline constexpr Writers kWriters32 = {Pack<Words32, Output>, Copy<Output>, Expand32<Output>};
template <typename Output>
inline constexpr Writers kWriters16 = {Pack<Words16, Output>, Copy<Output>, Expand16<Output>};
template <typename Output>
inline constexpr Writers kWriters16Vbmi2 = {Pack<Words16, Output>, Copy<Output>,
                                            Expand16Vbmi2<Output>};

}  // namespace avx512

const Kernel kAvx512For32 = {avx512::Scan32, avx512::Sum, avx512::Unpack<avx512::Words32>,
                             avx512::kWriters32<avx512::CachedStore>,
                             avx512::kWriters32<avx512::StreamingStore>};
const Kernel kAvx512For16 = {avx512::Scan16, avx512::Sum, avx512::Unpack<avx512::Words16>,
                             avx512::kWriters16<avx512::CachedStore>,
                             avx512::kWriters16<avx512::StreamingStore>};
const Kernel kAvx512Vbmi2For16 = {avx512::Scan16Vbmi2, avx512::Sum, avx512::Unpack<avx512::Words16>,
                                  avx512::kWriters16Vbmi2<avx512::CachedStore>,
                                  avx512::kWriters16Vbmi2<avx512::StreamingStore>};

}  // namespace tidepool::zvc
#endif
