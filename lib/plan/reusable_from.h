// SPDX-License-Identifier: Apache-2.0
// Computes when all streams know of a free, so that any of them may reuse the memory.
#ifndef TIDEPOOL_LIB_PLAN_REUSABLE_FROM_H_
#define TIDEPOOL_LIB_PLAN_REUSABLE_FROM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/plan/memory_log.h"

namespace tidepool::plan {

// Returns, for each allocation, the event from which on any stream may reuse its memory. It is the
// event of the free, or the first event by which every other stream that allocates later has waited
// for the free. It is the number of events for an allocation that is never freed. ResourceExhausted
// for more than 1,024 streams. O(events x streams).
absl::StatusOr<std::vector<std::int64_t>> ReusableFrom(const MemoryLog& log);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_PLAN_REUSABLE_FROM_H_
