// SPDX-License-Identifier: Apache-2.0
#include "lib/training/emit/task_calls.h"

#include <limits>

namespace tidepool::emit {

RoleUse TaskCalls::Use(const std::vector<RoleUse>& list, std::size_t i, const char* role,
                       std::int64_t elements) {
  if (i >= list.size()) {
    Fault(absl::StrCat("has no ", role, " among its data, expected one"));
    return {};
  }
  const std::int64_t bytes = placed_.graph.data[list[i].data].bytes;
  if (elements != 0 && bytes != elements * kWordBytes) {
    Fault(absl::StrCat("has ", bytes, " bytes of ", role, ", expected ", elements * kWordBytes,
                       " by its layer parameters"));
  }
  return list[i];
}

std::string TaskCalls::Braced(std::initializer_list<std::int64_t> numbers) {
  std::string list;
  for (const std::int64_t number : numbers) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", number);
  }
  return absl::StrCat("{", list, "}");
}

std::string TaskCalls::ShapeOf(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (n * c * h * w > kMost) {
    Fault(absl::StrCat("has ", n * c * h * w, " numbers in a tensor, expected at most ", kMost));
  }
  return Braced({n, c, h, w});
}

}  // namespace tidepool::emit
