// SPDX-License-Identifier: Apache-2.0
// Names for sizes.
#ifndef TIDEPOOL_TESTS_SUPPORT_SIZES_H_
#define TIDEPOOL_TESTS_SUPPORT_SIZES_H_

#include <cstdint>

namespace tidepool {

inline constexpr std::int64_t kKiB = 1024;
inline constexpr std::int64_t kMiB = 1024 * kKiB;
inline constexpr std::int64_t kGiB = 1024 * kMiB;

}  // namespace tidepool

#endif  // TIDEPOOL_TESTS_SUPPORT_SIZES_H_
