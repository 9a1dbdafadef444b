// SPDX-License-Identifier: Apache-2.0
// Snapshot history: the memory of a device before its history began. PyTorch keeps the last events
// in a ring buffer, so the first events are often lost. They follow from the remaining events and
// the state at the end.
#ifndef TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_HISTORY_H_
#define TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
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

inline bool Reserves(SnapshotWord action) {
  return action == SnapshotWord::kSegmentAlloc || action == SnapshotWord::kSegmentMap;
}
inline bool GivesBack(SnapshotWord action) {
  return action == SnapshotWord::kSegmentFree || action == SnapshotWord::kSegmentUnmap;
}

// Times beyond this, in either direction, are errors: a trace counts nanoseconds.
inline constexpr std::int64_t kMostMicroseconds = INT64_MAX / 1000;
inline bool IsTime(std::int64_t time_us) {
  return time_us >= -kMostMicroseconds && time_us <= kMostMicroseconds;
}

// The events of a device. They stay in the pickle; each ForEach takes them from it again.
class SnapshotHistory {
 public:
  struct Numbered {
    std::size_t number;
    SnapshotEvent event;
  };

  // `schema` must outlive the history.
  explicit SnapshotHistory(SnapshotSchema& schema) : schema_(schema) {}

  // Reads the events of a device. Returns the error of the first wrong one. Must be called first.
  absl::Status Read(std::int32_t device);
  // Turns free_requested into free_completed in a history that has no free_completed. Leaves out
  // the last request for each block that still awaits its free at the end.
  void CompleteFrees(const std::vector<SnapshotBlock>& blocks);

  // Calls `visit` with the number of each event, from 0 on, and the event, until it returns false.
  // An event without a time has that of the event before.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    std::size_t number = 0;
    std::int64_t time_us = 0;
    schema_.VisitEvents(device_, [&](SnapshotEvent& event) {
      if (event.has_time) time_us = event.time_us;
      event.time_us = time_us;
      if (event.action == SnapshotWord::kFreeRequested && completes_requests_ &&
          !waiting_.contains(number)) {
        event.action = SnapshotWord::kFreeCompleted;
      }
      return visit(number++, event);
    });
  }

  std::size_t size() const { return size_; }
  bool has_times() const { return has_times_; }
  std::int64_t first_time_us() const { return first_time_us_; }
  // The first event that is at no time.
  const std::optional<Numbered>& without_time() const { return beyond_; }
  // The events that reserve memory or give it back.
  const std::vector<Numbered>& reservations() const { return reservations_; }
  // Whether the history tells the peak: it has a refused request, or all requests, or requests and
  // more than a few events. `begins_late` tells whether memory was allocated before it.
  bool TellsPeak(bool begins_late) const;

 private:
  void Note(const SnapshotEvent& event);

  SnapshotSchema& schema_;
  std::int32_t device_ = 0;
  std::size_t size_ = 0;
  std::size_t of_memory_ = 0;  // all but the marks of snapshots
  bool has_request_ = false;
  bool has_refusal_ = false;
  bool has_completed_ = false;
  bool has_times_ = false;
  std::int64_t first_time_us_ = 0;
  std::optional<Numbered> beyond_;
  std::vector<Numbered> reservations_;
  bool completes_requests_ = false;
  absl::flat_hash_set<std::size_t> waiting_;  // requests for blocks that await their free
};

// Returns the allocations that no event records, but blocks at the end or frees imply. O(events +
// blocks log blocks).
UnrecordedAllocations FindUnrecordedAllocations(const SnapshotHistory& history,
                                                const std::vector<SnapshotBlock>& blocks);

// Returns the reservations from before the first event, by address. Their sum plus that of the
// events is that of the segments. Returns InvalidArgument when a segment occurs twice, or for more
// than kMostReservedBytes. O(n log n).
absl::StatusOr<std::vector<EarlierReservation>> FindEarlierReservations(
    const SnapshotHistory& history, const std::vector<SnapshotSegment>& segments,
    std::int32_t device);

}  // namespace tidepool::pytorch

#endif  // TIDEPOOL_LIB_TRACE_PYTORCH_SNAPSHOT_HISTORY_H_
