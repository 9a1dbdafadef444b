// Where the allocations of a trace lie in what its allocator had reserved: what a memory snapshot
// shows, and few traces say.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_LAYOUT_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/trace.h"

namespace tidepool::pytorch {

// All as it is behind the last event, by address.
struct SnapshotLayout {
  struct Segment {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t stream;
  };
  struct Block {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint32_t allocation;
  };
  std::vector<Segment> segments;
  std::vector<Block> blocks;
  // Whether ranges were given back in other pieces than they were taken, or allocations lie in
  // several: PyTorch calls such segments expandable, and those that meet are one.
  bool is_expandable = false;
};

// InvalidArgument when ids are not addresses, or sizes, rounded up to the trace's alignment,
// overlap or lie outside of what was reserved; what is wrong, what was expected. O(n log n).
absl::StatusOr<SnapshotLayout> FindLayout(const Trace& trace);

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_LAYOUT_H_
