// How many random cases a test tries.
#ifndef TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_
#define TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_

#include <algorithm>

namespace tidepool::testing {

// `usual`; a fifth of them under sanitizers, where everything takes ten times as long and what is
// looked for, memory and threads, hardly depends on the case.
constexpr int Rounds(int usual) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::max(usual / 5, 1);
#else
  return usual;
#endif
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_ROUNDS_H_
