// SPDX-License-Identifier: Apache-2.0
// The places of data while a schedule with fixed addresses or pages is checked: on each device and
// on the host, the bytes that are there and their version.
#ifndef TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_DATA_PLACES_H_
#define TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_DATA_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/training/schedule/steps/byte_ranges.h"
#include "tidepool/training/schedule.h"

namespace tidepool::schedule {

// The contents of data: a version (DataVersions), or none yet. The sum of a weight gradient over
// rounds begins with the pass `since`.
struct DataValue {
  static constexpr int kUnwritten = -1;

  int version = kUnwritten;
  std::int64_t since = 0;

  bool is_written() const { return version != kUnwritten; }
  friend bool operator==(const DataValue&, const DataValue&) = default;
};

// One side of the link.
struct DataSide {
  ByteRanges bytes;  // of the device's memory, or of the host's copy
  DataValue value;

  friend bool operator==(const DataSide&, const DataSide&) = default;
};

// One datum on one device, with its copy on the host.
struct DataPlace {
  DataSide device;
  DataSide host;
  std::int64_t offset = -1;  // of the whole datum on the device, while any byte is there
  bool began = false;        // got the value that it has before the iteration
  bool freed = false;
  std::size_t done = 0;          // first runs in this pass of tasks that read or update it
  std::size_t updates_done = 0;  // those that are updates of weights
  // The last step that moved it, for errors.
  std::size_t moved_at = 0;
  StepKind moved_by = StepKind::kSynchronize;

  bool is_nowhere() const { return device.bytes.empty() && host.bytes.empty(); }
};

// Whether the data may live across rounds: it does not grow with the batch.
inline bool LivesAcrossRounds(const GraphData& data) {
  return data.kind == DataKind::kWeight || data.kind == DataKind::kWeightGradient ||
         data.kind == DataKind::kOptimizerState;
}
// Whether all devices share one copy on the host.
inline bool IsShared(const GraphData& data) {
  return data.kind == DataKind::kWeight || data.kind == DataKind::kOptimizerState;
}

class DataPlaces {
 public:
  DataPlaces(const TaskGraph& graph, std::size_t devices) : graph_(graph), places_(devices) {}

  std::vector<DataPlace>& OnDevice(std::size_t device) {
    if (places_[device].empty()) places_[device].resize(graph_.data.size());
    return places_[device];
  }
  DataPlace& At(std::size_t device, std::size_t data) { return OnDevice(device)[data]; }
  // Returns the host's copy of the device's datum. Shared copies are those of device 0.
  DataSide& HostOf(std::size_t device, std::size_t data) {
    return At(IsShared(graph_.data[data]) ? 0 : device, data).host;
  }

 private:
  const TaskGraph& graph_;
  std::vector<std::vector<DataPlace>> places_;  // by device; empty before its first step
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_TRAINING_SCHEDULE_STEPS_DATA_PLACES_H_
