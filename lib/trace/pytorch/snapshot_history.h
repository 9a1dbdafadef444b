// What a device held before its history began. PyTorch keeps the last events in a ring, so the
// first ones are often lost; what they said follows from how things stand at the end.
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
  std::uint64_t address = 0;  // 0: of no known place
  std::int64_t bytes = 0;
  PickleValue stream;
};

struct EarlierAllocation {
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  PickleValue stream;
  PickleValue frames;  // None when they are not known
};

struct UnrecordedAllocations {
  std::vector<EarlierAllocation> before;  // by address
  std::vector<EarlierAllocation> after;   // the same: where recording had stopped by then
};

// Where a history has no free_completed, its free_requested become that, but for the last ones of
// blocks that still await their free at the end.
void CompleteFrees(const std::vector<SnapshotBlock>& blocks, std::vector<SnapshotEvent>& events);

// The allocations that the blocks at the end and the frees without an allocation tell of. O(events
// + blocks log blocks).
UnrecordedAllocations FindUnrecordedAllocations(const std::vector<SnapshotEvent>& events,
                                                const std::vector<SnapshotBlock>& blocks);

// What was reserved before the first event, by address, so that the sum over it and the events is
// that over the segments. InvalidArgument when a segment is there twice or there is more than
// kMostReservedBytes of anything. O(n log n).
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
