// SPDX-License-Identifier: Apache-2.0
// Earlier memory: the allocations from before a profiler's recording began. The running total
// `Total Allocated` tells their sum. A free without an allocation in the file tells one of them.
#ifndef TIDEPOOL_LIB_TRACE_CHROME_EARLIER_MEMORY_H_
#define TIDEPOOL_LIB_TRACE_CHROME_EARLIER_MEMORY_H_

#include <cstdint>
#include <vector>

#include "lib/trace/chrome/profiler_events.h"

namespace tidepool::chrome {

struct EarlierMemory {
  // Frees of earlier allocations: indices of events, in the order of `order`. Empty when the file
  // has no totals.
  std::vector<std::uint32_t> frees;
  std::int64_t other_bytes = 0;  // sum of the allocations that the recording does not free

  bool IsEmpty() const { return frees.empty() && other_bytes == 0; }
};

// Takes the first known total of the device and undoes the events up to it. Later totals are not
// compared: they drift where the profiler missed events. `order` has the events by time. O(events).
EarlierMemory FindEarlierMemory(const ProfilerEvents& file, std::int32_t device,
                                const std::vector<std::uint32_t>& order);

}  // namespace tidepool::chrome

#endif  // TIDEPOOL_LIB_TRACE_CHROME_EARLIER_MEMORY_H_
