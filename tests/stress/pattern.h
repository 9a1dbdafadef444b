// SPDX-License-Identifier: Apache-2.0
// The contents of buffers: words that a seed determines, two thirds of them zero, so that they can
// be compressed.
#ifndef TIDEPOOL_TESTS_STRESS_PATTERN_H_
#define TIDEPOOL_TESTS_STRESS_PATTERN_H_

#include <cstdint>
#include <cstring>

namespace tidepool::stress {

inline std::uint64_t PatternWord(std::uint64_t seed, std::int64_t at) {
  const std::uint64_t word = (seed + static_cast<std::uint64_t>(at)) * 0x9e3779b97f4a7c15U;
  return (word >> 32U) % 3 == 0 ? word : 0;
}

// Calls `use` with each part of up to 8 bytes, its size, and its expected word. Stops at the first
// call that returns false. Returns whether all calls returned true.
template <typename Byte, typename Use>
bool ForEachWord(Byte* memory, std::int64_t bytes, std::uint64_t seed, Use use) {
  for (std::int64_t at = 0; at < bytes; at += 8) {
    const std::int64_t left = bytes - at;
    if (!use(memory + at, static_cast<std::size_t>(left < 8 ? left : 8),
             PatternWord(seed, at / 8))) {
      return false;
    }
  }
  return true;
}

inline void FillPattern(void* to, std::int64_t bytes, std::uint64_t seed) {
  ForEachWord(static_cast<std::uint8_t*>(to), bytes, seed,
              [](std::uint8_t* piece, std::size_t size, std::uint64_t word) {
                std::memcpy(piece, &word, size);
                return true;
              });
}
inline bool HoldsPattern(const void* from, std::int64_t bytes, std::uint64_t seed) {
  return ForEachWord(static_cast<const std::uint8_t*>(from), bytes, seed,
                     [](const std::uint8_t* piece, std::size_t size, std::uint64_t word) {
                       return std::memcmp(piece, &word, size) == 0;
                     });
}

}  // namespace tidepool::stress

#endif  // TIDEPOOL_TESTS_STRESS_PATTERN_H_
