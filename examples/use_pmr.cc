// SPDX-License-Identifier: Apache-2.0
// Containers of the standard library on a pool of host memory.
#include <tidepool/pmr.h>

#include <cstdio>
#include <vector>

int main() {
  // [pmr]
  tidepool::PmrResource resource("device=host, budget=64MiB");
  std::pmr::vector<double> numbers(1000, 0.5, &resource);
  // [/pmr]
  tidepool_statistics statistics = {};
  statistics.struct_size = sizeof statistics;
  tidepool_get_statistics(resource.pool(), &statistics);
  std::printf("%zu bytes live\n", statistics.live_bytes);
  return statistics.live_bytes == 8192 ? 0 : 1;
}
