// SPDX-License-Identifier: Apache-2.0
// Snapshot layout: the addresses of live allocations in the reserved memory of a trace's allocator.
// A memory snapshot needs them, and few traces have them.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_LAYOUT_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/trace.h"

namespace tidepool::pytorch {

// State after the last event, by address.
struct SnapshotLayout {
  struct Segment {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t stream;
    const TraceSegment* recorded;  // the segment of the recording around it; null without one
  };
  struct Block {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t allocation;
  };
  std::vector<Segment> segments;
  std::vector<Block> blocks;
  // Whether ranges were given back in other parts than they were reserved, or an allocation spans
  // several ranges. PyTorch calls such segments expandable and joins adjacent ones.
  bool is_expandable = false;
};

// Returns InvalidArgument when ids are not addresses, or when allocations, rounded up to the
// trace's alignment, overlap or lie outside the reserved memory. O(n log n).
absl::StatusOr<SnapshotLayout> FindLayout(const Trace& trace);

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_LAYOUT_H_
