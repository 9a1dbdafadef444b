// SPDX-License-Identifier: Apache-2.0
// Snapshot history: the memory of a device before its history began. PyTorch keeps the last events
// in a ring buffer, so the first events are often lost. They follow from the remaining events and
// the state at the end.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_HISTORY_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_HISTORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/trace/pytorch/pickle.h"
#include "lib/trace/pytorch/snapshot_schema.h"

namespace tidepool::pytorch {

struct EarlierReservation {
  std::uint64_t address = 0;  // 0 for an unknown address
  std::int64_t bytes = 0;
  PickleValue stream;
};

struct EarlierAllocation {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  PickleValue stream;
  PickleValue frames;  // None when unknown
};

struct UnrecordedAllocations {
  std::vector<EarlierAllocation> before;  // by address
  std::vector<EarlierAllocation> after;   // by address; allocated after recording had stopped
};

// Turns free_requested into free_completed in a history that has no free_completed. Leaves out the
// last request for each block that still awaits its free at the end.
void CompleteFrees(const std::vector<SnapshotBlock>& blocks, std::vector<SnapshotEvent>& events);

// Returns the allocations that no event records, but blocks at the end or frees imply. O(events +
// blocks log blocks).
UnrecordedAllocations FindUnrecordedAllocations(const std::vector<SnapshotEvent>& events,
                                                const std::vector<SnapshotBlock>& blocks);

// Returns the reservations from before the first event, by address. Their sum plus that of the
// events is that of the segments. Returns InvalidArgument when a segment occurs twice, or for more
// than kMostReservedBytes. O(n log n).
absl::StatusOr<std::vector<EarlierReservation>> FindEarlierReservations(
    const std::vector<SnapshotEvent>& events, const std::vector<SnapshotSegment>& segments,
    std::int32_t device);

inline bool Reserves(SnapshotWord action) {
  return action == SnapshotWord::kSegmentAlloc || action == SnapshotWord::kSegmentMap;
}
inline bool GivesBack(SnapshotWord action) {
  return action == SnapshotWord::kSegmentFree || action == SnapshotWord::kSegmentUnmap;
}

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_HISTORY_H_
