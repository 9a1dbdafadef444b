// SPDX-License-Identifier: Apache-2.0
// Workspaces that the program gives to cuBLAS, by which its memory is told from other memory.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "dryrun/libraries/answers.h"

namespace {

struct Given {
  std::mutex mutex;
  std::set<std::pair<std::uintptr_t, std::size_t>> workspaces;
};

Given& AllGiven() {
  static auto* const given = new Given();
  return *given;
}

}  // namespace

TIDEPOOL_ANSWER int cublasSetWorkspace_v2(void* /*handle*/, void* workspace, std::size_t bytes) {
  if (workspace == nullptr) return 0;
  Given& given = AllGiven();
  const std::lock_guard lock(given.mutex);
  given.workspaces.emplace(reinterpret_cast<std::uintptr_t>(workspace), bytes);
  return 0;
}

// Stores the workspace with an index, in ascending order. Returns the number of workspaces.
TIDEPOOL_ANSWER int tidepoolProductWorkspace(int index, long long* address, long long* bytes) {
  Given& given = AllGiven();
  const std::lock_guard lock(given.mutex);
  const int count = static_cast<int>(given.workspaces.size());
  if (index < 0 || index >= count) return count;
  const auto found = std::next(given.workspaces.begin(), index);
  *address = static_cast<long long>(found->first);
  *bytes = static_cast<long long>(found->second);
  return count;
}
