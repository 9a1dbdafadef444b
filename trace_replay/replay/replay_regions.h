// SPDX-License-Identifier: Apache-2.0
// ReplayRegions: the regions of a trace in the pool of a live replay, with their pauses.
#ifndef TIDEPOOL_TRACE_REPLAY_REPLAY_REPLAY_REGIONS_H_
#define TIDEPOOL_TRACE_REPLAY_REPLAY_REPLAY_REGIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tidepool/device.h"
#include "tidepool/pool.h"
#include "tidepool/trace/trace.h"

namespace tidepool::tool {

// Not thread-safe.
class ReplayRegions {
 public:
  // The trace and the pool outlive this.
  ReplayRegions(const Trace& trace, Pool& pool) : trace_(trace), parts_{{.pool = &pool}} {}

  // Makes the regions of the trace. Without this call, all allocations are of the pool. Errors are
  // those of Pool::Region.
  absl::Status Make();
  bool HasAny() const { return parts_.size() > 1; }

  // Returns the pool that serves an allocation of the trace, or frees it.
  Pool& PoolOf(std::uint32_t allocation) { return *PartOf(allocation).pool; }
  bool IsAsleep(std::uint32_t allocation) { return PartOf(allocation).is_asleep; }
  // Returns the bytes that a region has live.
  std::int64_t LiveBytes(TraceRegion region) const {
    return parts_[region].pool->Stats().live_bytes;
  }
  // Returns the number of times that the contents of an allocation's region were lost so far.
  std::int64_t LossesOf(std::uint32_t allocation) { return PartOf(allocation).losses; }
  // Counts a refusal of that pool, unless all refusals in its figures are counted.
  bool CountRefusal(std::uint32_t allocation);

  // Pauses a region as the trace tells, or without contents; resumes it. Stores that the trace does
  // not describe are page-locked memory, and files lie in the folder for temporary files. Errors
  // are those of the pool and of the stores; ResourceExhausted, of a resume without room, leaves
  // the region asleep, and its next pause does nothing. Nothing without regions.
  absl::Status Pause(const TracePause& pause, bool keeps_contents, Stream stream);
  absl::Status Resume(const TracePause& pause, Stream stream);

  // Updates the peaks of memory. O(regions).
  void NotePeaks();
  // Adds the figures of the regions to those of the pool.
  void AddTo(PoolStats& stats) const;

 private:
  struct Part {
    Pool* pool = nullptr;
    std::int64_t refused = 0;
    std::int64_t losses = 0;
    bool is_asleep = false;
  };
  Part& PartOf(std::uint32_t allocation) {
    return parts_[HasAny() ? trace_.allocations[allocation].region : 0];
  }
  Pool& main() const { return *parts_.front().pool; }
  absl::Status PauseInto(const TracePause& pause, Stream stream);

  const Trace& trace_;
  std::vector<Part> parts_;  // by region; the first is the pool
  std::int64_t peak_live_bytes_ = 0;
  std::int64_t peak_reserved_bytes_ = 0;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_REPLAY_REPLAY_REGIONS_H_
