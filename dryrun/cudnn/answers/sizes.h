// SPDX-License-Identifier: Apache-2.0
// Sizes of tensors in lists.
#ifndef TIDEPOOL_DRYRUN_CUDNN_ANSWERS_SIZES_H_
#define TIDEPOOL_DRYRUN_CUDNN_ANSWERS_SIZES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace tidepool::cudart_host {

// Returns the product of the sizes from the `first` on. Sizes that no GPU holds do not overflow.
inline double Product(const std::vector<std::int64_t>& sizes, std::size_t first = 0) {
  return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(first), sizes.end(), 1.0,
                         std::multiplies<>());
}

inline bool AreAll(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t one) { return one == value; });
}

}  // namespace tidepool::cudart_host

#endif  // TIDEPOOL_DRYRUN_CUDNN_ANSWERS_SIZES_H_
