// SPDX-License-Identifier: Apache-2.0
// The workspaces of convolutions that programs were told, for the part of a dry run inside of them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>

#include "dryrun/cudnn/answers/algorithms.h"
#include "dryrun/libraries/answers.h"

namespace tidepool::cudart_host {
namespace {

// Returns the bytes that each convolution is to take, or -1 if its shape decides.
std::int64_t OrderedBytes() {
  static const std::int64_t bytes = [] {
    const char* const text = std::getenv("CUDART_HOST_CUDNN_WORKSPACE");
    return text != nullptr && *text != 0 ? SizeOfWorkspace(std::atof(text)) : -1;
  }();
  return bytes;
}

// The workspaces that were told, each with the largest that the same convolution could take.
struct Told {
  std::mutex mutex;
  std::map<std::int64_t, std::int64_t> largest;
};

// Is never destroyed: programs call cuDNN until their end.
Told& AllTold() {
  static Told* const told = new Told();
  return *told;
}

}  // namespace

std::vector<Algorithm> OfferedAlgorithms(const Convolution& convolution) {
  std::vector<Algorithm> algorithms = AlgorithmsOf(convolution, AssumedGpu());
  if (OrderedBytes() >= 0) {
    for (Algorithm& one : algorithms) one.workspace_bytes = OrderedBytes();
  }
  return algorithms;
}

void NoteWorkspace(std::int64_t bytes, const Convolution& convolution) {
  const std::int64_t largest = std::max(bytes, LargestWorkspace(convolution, AssumedGpu()));
  Told& told = AllTold();
  const std::lock_guard lock(told.mutex);
  std::int64_t& known = told.largest[bytes];
  known = std::max(known, largest);
}

}  // namespace tidepool::cudart_host

// Stores the workspace with an index, in ascending order, and the largest that a convolution with
// this workspace could take. Returns the number of workspaces.
TIDEPOOL_ANSWER int tidepoolConvolutionWorkspace(int index, long long* bytes, long long* largest) {
  using tidepool::cudart_host::AllTold;
  auto& told = AllTold();
  const std::lock_guard lock(told.mutex);
  const int count = static_cast<int>(told.largest.size());
  if (index < 0 || index >= count) return count;
  const auto found = std::next(told.largest.begin(), index);
  *bytes = found->first;
  *largest = found->second;
  return count;
}
