// SPDX-License-Identifier: Apache-2.0
// The number of random cases that a test tries.
#ifndef TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_
#define TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <vector>

namespace tidepool::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHasSanitizer = true;
#else
inline constexpr bool kHasSanitizer = false;
#endif

// Returns the number of cases to try of `all`: a third, or all of them if the environment has
// TIDEPOOL_ALL_ROUNDS, as in scripts/check_all.sh. With a sanitizer it is a fifth: there each case
// takes ten times as long, and the faults in memory and threads hardly depend on the case.
inline int Rounds(int all) {
  const bool tries_all = std::getenv("TIDEPOOL_ALL_ROUNDS") != nullptr;
  return std::max(all / (kHasSanitizer ? 5 : tries_all ? 1 : 3), 1);
}

// Returns all cases, or the first fifth of them with a sanitizer: at least one.
template <typename Case>
std::vector<Case> Cases(std::vector<Case> all) {
  if (kHasSanitizer) all.resize(std::max<std::size_t>(all.size() / 5, 1));
  return all;
}
template <typename Case>
std::vector<Case> Cases(std::initializer_list<Case> all) {
  return Cases(std::vector<Case>(all));
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_
