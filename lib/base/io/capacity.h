// SPDX-License-Identifier: Apache-2.0
// Capacities of arrays that grow while a file is read.
#ifndef TIDEPOOL_LIB_BASE_IO_CAPACITY_H_
#define TIDEPOOL_LIB_BASE_IO_CAPACITY_H_

#include <algorithm>
#include <cstddef>

namespace tidepool::io {

// Returns the next capacity of a full array that will have about `expected` elements; 0 is unknown.
// One large step touches half of the memory that doubling touches. A wrong estimate, of a file that
// changes its rows or tells a wrong size, costs at most 1,023 times the array in addresses.
inline std::size_t CapacityFor(std::size_t size, double expected) {
  constexpr double kSlack = 1.03;  // later elements may take fewer bytes of the file
  const auto now = static_cast<double>(size);
  const double all =
      expected > 0 ? std::clamp(kSlack * expected, 1.125 * now, 1024 * now) : 2 * now;
  return static_cast<std::size_t>(all) + 64;
}

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_CAPACITY_H_
