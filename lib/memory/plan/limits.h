// SPDX-License-Identifier: Apache-2.0
// The largest problems that a plan is made for.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_LIMITS_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace tidepool::plan {

inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;  // heights stay far from overflow
inline constexpr std::int64_t kLargestAlignment = std::int64_t{1} << 30;
inline constexpr std::size_t kMostBuffers = INT32_MAX - 1;
inline constexpr std::size_t kMostStreams = 1024;

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_LIMITS_H_
