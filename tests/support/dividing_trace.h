// SPDX-License-Identifier: Apache-2.0
// A short trace on which pools of different sizes behave differently: after 5 * depth events the
// exact search for the smallest pool has to distinguish 2^depth sets of them.
#ifndef TIDEPOOL_TESTS_SUPPORT_DIVIDING_TRACE_H_
#define TIDEPOOL_TESTS_SUPPORT_DIVIDING_TRACE_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace tidepool::testing {

// Operation CSV. With best fit, the pools differ in the bytes above all live bytes at the peak. A
// request for half of the possible difference is served from these bytes if they suffice, because
// the free hole next to them is larger; otherwise it is served from the hole. The next request asks
// for a quarter, and so on. The last request fits into none of the distinguished pools; the pool
// that serves it is far larger.
inline std::string DividingTrace(int depth) {
  constexpr std::int64_t kUnit = 512;
  const auto units = [](std::int64_t count) { return count * kUnit; };
  std::string text = "op,id,size,hint\n";
  const auto allocate = [&](const std::string& id, std::int64_t bytes) {
    absl::StrAppend(&text, "a,", id, ",", bytes, ",\n");
  };
  const auto free = [&](const std::string& id) { absl::StrAppend(&text, "f,", id, ",,\n"); };
  for (const int i : {1, 2}) {
    allocate(absl::StrCat("low", i), units(std::int64_t{1} << depth));
    allocate(absl::StrCat("low wall", i), units(1));
  }
  for (int i = depth; i > 0; --i) {
    allocate(absl::StrCat("hole", i), units((std::int64_t{1} << i) + 1));
    allocate(absl::StrCat("wall", i), units(1));
  }
  for (int i = depth; i > 0; --i) {
    free(absl::StrCat("hole", i));
    allocate(absl::StrCat("half", i), units(std::int64_t{1} << (i - 1)));
  }
  free("low1");
  free("low2");
  allocate("last", units(std::int64_t{2} << depth));
  return text;
}

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_SUPPORT_DIVIDING_TRACE_H_
