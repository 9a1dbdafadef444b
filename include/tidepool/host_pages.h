// SPDX-License-Identifier: Apache-2.0
// The options of pools of host memory that concern pages.
#ifndef TIDEPOOL_HOST_PAGES_H_
#define TIDEPOOL_HOST_PAGES_H_

#include <cstdint>

namespace tidepool {

// Huge pages (2 MiB) make memory quicker to touch and to pin.
enum class HugePages : std::uint8_t {
  kNever,     // not requested; the system may still use some
  kAdvised,   // transparent huge pages, as far as the system has and allows them
  kRequired,  // huge pages that the administrator reserved (vm.nr_hugepages), or an error
};

inline constexpr int kAnyNumaNode = -1;

struct HostPageOptions {
  HugePages huge_pages = HugePages::kAdvised;
  // The only NUMA node that the memory may come from. Some containers forbid a process to choose a
  // node: that is an error. kAnyNumaNode: near the threads that touch the memory.
  int numa_node = kAnyNumaNode;
  // The threads that touch new memory, at most one for each 8 MiB. 0: one for each processor, at
  // most 16.
  int threads = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_HOST_PAGES_H_
