// SPDX-License-Identifier: Apache-2.0
// Pages of the host, as pools of host memory ask for them.
#ifndef TIDEPOOL_HOST_HOST_PAGES_H_
#define TIDEPOOL_HOST_HOST_PAGES_H_

#include <cstdint>

namespace tidepool {

// Huge pages (2 MiB) make memory quicker to touch and to pin.
enum class HugePages : std::uint8_t {
  kNever,     // not asked for; the system may use some all the same
  kAdvised,   // transparent ones, as far as the system has and allows them
  kRequired,  // of those that the administrator set aside (vm.nr_hugepages), or an error
};

inline constexpr int kAnyNumaNode = -1;

struct HostPageOptions {
  HugePages huge_pages = HugePages::kAdvised;
  // Where the memory lies, and nowhere else. Where the system does not let a process choose (some
  // containers), an error. kAnyNumaNode: near the threads that touch it.
  int numa_node = kAnyNumaNode;
  // That touch new memory, at most one for 8 MiB. 0: one a processor, 16 at most.
  int threads = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_HOST_HOST_PAGES_H_
