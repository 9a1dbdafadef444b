// SPDX-License-Identifier: Apache-2.0
// A function of the log may take memory, so the message goes past it.
#include "lib/memory/pool/without_host_memory.h"

#include <cstdio>
#include <cstdlib>

namespace tidepool::pool {

void EndWithoutHostMemory() {
  std::fputs(
      "tidepool: the host has no memory left (std::bad_alloc) in a call of a pool, which cannot go "
      "on half-changed: the process ends. Free memory of the host, or raise its limit\n",
      stderr);
  std::abort();
}

}  // namespace tidepool::pool
