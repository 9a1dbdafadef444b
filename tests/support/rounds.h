// SPDX-License-Identifier: Apache-2.0
// The number of random cases that a test tries.
#ifndef TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_
#define TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <vector>

namespace tidepool::testing {

// Returns `usual`, or a fifth of it under sanitizers. There each case takes ten times as long, and
// the faults that sanitizers look for, in memory and threads, hardly depend on the case.
constexpr int Rounds(int usual) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::max(usual / 5, 1);
#else
  return usual;
#endif
}

// Returns all cases, or the first fifth of them under sanitizers: at least one.
template <typename Case>
std::vector<Case> Cases(std::vector<Case> all) {
  all.resize(static_cast<std::size_t>(Rounds(static_cast<int>(all.size()))));
  return all;
}
template <typename Case>
std::vector<Case> Cases(std::initializer_list<Case> all) {
  return Cases(std::vector<Case>(all));
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_
