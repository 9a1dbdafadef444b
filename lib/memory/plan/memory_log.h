// SPDX-License-Identifier: Apache-2.0
// A memory log: the requests of a program to an allocator, without names and times. Plans are made
// of it.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_MEMORY_LOG_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_MEMORY_LOG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/plan.h"

namespace tidepool::plan {

struct MemoryEvent {
  enum class Kind : std::uint8_t {
    kAllocate,
    kFree,
    kWait,   // the event's stream was made to wait for another
    kOther,  // touches no memory, but has an index like any event
  };

  std::uint32_t index = 0;  // of the allocation, or of the awaited stream
  std::uint32_t stream = 0;
  Kind kind = Kind::kAllocate;
};

struct MemoryLog {
  std::vector<MemoryEvent> events = {};
  std::vector<std::int64_t> bytes = {};  // of each allocation
  std::size_t streams = 1;
  // Whether the log has every wait. Otherwise all streams are assumed to know of all frees.
  bool has_all_waits = true;
};

// Returns one buffer for each allocation, in their order, as ToPlanProblem describes it for a
// trace; times are indices of events. InvalidArgument for an alignment that is not a power of two
// up to 1 GiB, ResourceExhausted for more than 1,024 streams. O(events).
absl::StatusOr<PlanProblem> ProblemOf(const MemoryLog& log, std::int64_t alignment);

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_MEMORY_LOG_H_
