// Whether two ranges of memory have a byte in common.
#ifndef TIDEPOOL_LIB_ZVC_RANGES_H_
#define TIDEPOOL_LIB_ZVC_RANGES_H_

#include <cstddef>
#include <functional>

#include "absl/types/span.h"

namespace tidepool::zvc {

inline bool Overlap(absl::Span<const std::byte> a, absl::Span<const std::byte> b) {
  if (a.empty() || b.empty()) return false;
  const std::less<const std::byte*> is_before;  // a total order, of pointers into anything
  return is_before(a.data(), b.data() + b.size()) && is_before(b.data(), a.data() + a.size());
}

}  // namespace tidepool::zvc

#endif  // TIDEPOOL_LIB_ZVC_RANGES_H_
