// SPDX-License-Identifier: Apache-2.0
// Arithmetic in reach of all code: rounding of sizes to units, and times that count as equal. The
// functions do not check for overflow: callers bound their sizes.
#ifndef TIDEPOOL_LIB_BASE_ARITHMETIC_H_
#define TIDEPOOL_LIB_BASE_ARITHMETIC_H_

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace tidepool {

// Returns how many units hold the value, which is 0 or more. The unit is positive.
template <std::integral Integer>
constexpr Integer CeilDivide(Integer value, std::type_identity_t<Integer> unit) {
  return (value + unit - 1) / unit;
}

// Returns the least multiple of the unit from the value on. Both are as for CeilDivide.
template <std::integral Integer>
constexpr Integer RoundUp(Integer value, std::type_identity_t<Integer> unit) {
  return CeilDivide(value, unit) * unit;
}

// Returns the same for a unit that is a power of two, without a division: for inner loops.
constexpr std::int64_t AlignUp(std::int64_t value, std::int64_t alignment) {
  return (value + alignment - 1) & -alignment;
}

// Two times are equal if they differ by less than this part of them: sums of the same seconds in
// different orders do. A sum of 10^5 numbers is off by 1e-11 at most.
inline constexpr double kEqualSeconds = 1e-11;

}  // namespace tidepool

#endif  // TIDEPOOL_LIB_BASE_ARITHMETIC_H_
