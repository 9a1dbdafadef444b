// SPDX-License-Identifier: Apache-2.0
// Patterns with which tests fill buffers.
#ifndef TIDEPOOL_TESTS_COPIES_OFFLOAD_PATTERNS_H_
#define TIDEPOOL_TESTS_COPIES_OFFLOAD_PATTERNS_H_

#include <cstdint>

namespace tidepool {

// Returns a byte of a pattern; two of three words are zero.
inline std::uint8_t PatternByte(std::uint64_t seed, std::int64_t at) {
  const std::uint64_t word = seed * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(at / 4);
  const std::uint64_t mixed = (word ^ (word >> 29U)) * 0xbf58476d1ce4e5b9U;
  if ((mixed >> 40U) % 3 != 0) return 0;
  return static_cast<std::uint8_t>(mixed >> (8 * static_cast<unsigned>(at % 4)));
}
inline void WritePattern(void* to, std::int64_t bytes, std::uint64_t seed) {
  auto* const memory = static_cast<std::uint8_t*>(to);
  for (std::int64_t i = 0; i < bytes; ++i) memory[i] = PatternByte(seed, i);
}
inline bool HasPattern(const void* from, std::int64_t bytes, std::uint64_t seed) {
  const auto* const memory = static_cast<const std::uint8_t*>(from);
  for (std::int64_t i = 0; i < bytes; ++i) {
    if (memory[i] != PatternByte(seed, i)) return false;
  }
  return true;
}

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_COPIES_OFFLOAD_PATTERNS_H_
