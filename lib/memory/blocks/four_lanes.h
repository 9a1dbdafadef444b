// SPDX-License-Identifier: Apache-2.0
// Comparison of four numbers at once: a few instructions where the processor has them (every
// x86-64), an equivalent loop elsewhere.
#ifndef TIDEPOOL_LIB_MEMORY_BLOCKS_FOUR_LANES_H_
#define TIDEPOOL_LIB_MEMORY_BLOCKS_FOUR_LANES_H_

#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tidepool::blocks {

// Returns a bit set: bit i says whether the bits `mask` of lanes[i] are `bits`. `lanes` is aligned
// to 16 bytes.
inline unsigned EqualLanes(const std::uint32_t* lanes, std::uint32_t mask, std::uint32_t bits) {
#ifdef __SSE2__
  const __m128i values = _mm_load_si128(reinterpret_cast<const __m128i*>(lanes));
  const __m128i masked = _mm_and_si128(values, _mm_set1_epi32(static_cast<int>(mask)));
  const __m128i equal = _mm_cmpeq_epi32(masked, _mm_set1_epi32(static_cast<int>(bits)));
  return static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(equal)));
#else
  unsigned equal = 0;
  for (int i = 0; i < 4; ++i) equal |= ((lanes[i] & mask) == bits ? 1U : 0U) << i;
  return equal;
#endif
}

// Returns a bit set: bit i says whether lanes[i] >= least. No number is negative.
inline unsigned LanesAtLeast(const std::int64_t* lanes, std::int64_t least) {
#ifdef __SSE2__
  // least - 1 - lanes[i] is negative exactly then, and the high halves hold the signs.
  const auto* pairs = reinterpret_cast<const __m128i*>(lanes);
  const __m128i below = _mm_set1_epi64x(least - 1);
  const __m128i low = _mm_sub_epi64(below, _mm_loadu_si128(pairs));
  const __m128i high = _mm_sub_epi64(below, _mm_loadu_si128(pairs + 1));
  return static_cast<unsigned>(_mm_movemask_ps(
      _mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), _MM_SHUFFLE(3, 1, 3, 1))));
#else
  unsigned at_least = 0;
  for (int i = 0; i < 4; ++i) at_least |= (lanes[i] >= least ? 1U : 0U) << i;
  return at_least;
#endif
}

}  // namespace tidepool::blocks

#endif  // TIDEPOOL_LIB_MEMORY_BLOCKS_FOUR_LANES_H_
