// SPDX-License-Identifier: Apache-2.0
// Overlap of two ranges of memory.
#ifndef TIDEPOOL_LIB_COPIES_ZVC_RANGES_H_
#define TIDEPOOL_LIB_COPIES_ZVC_RANGES_H_

#include <cstddef>
#include <functional>

#include "absl/types/span.h"

namespace tidepool::zvc {

inline bool Overlap(absl::Span<const std::byte> a, absl::Span<const std::byte> b) {
  if (a.empty() || b.empty()) return false;
  const std::less<const std::byte*> is_before;  // total order, also for unrelated pointers
  return is_before(a.data(), b.data() + b.size()) && is_before(b.data(), a.data() + a.size());
}

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_COPIES_ZVC_RANGES_H_
