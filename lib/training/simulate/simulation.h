// SPDX-License-Identifier: Apache-2.0
// One simulated iteration: a clock for the host and one for each stream, advanced step by step.
//
// Steps happen in their order, so no queue of events is needed. Each task or copy begins as soon as
// its stream, the host and its dependencies allow.
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_SIMULATION_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_SIMULATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/training/schedule/line_of_data.h"
#include "lib/training/simulate/device_memory.h"
#include "lib/training/simulate/host_room.h"
#include "lib/training/simulate/memory_curve.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool::simulate {

// The time at which a stream or the host may continue, and the cause of its last wait.
struct Ready {
  double seconds = 0;
  TimelineStall::Reason reason = TimelineStall::Reason::kMemory;
  std::size_t data = 0;

  // Waits for `other`. The cause stays when both times are equal.
  void Await(const Ready& other) {
    if (other.seconds > seconds) *this = other;
  }
};

// Not thread-safe. The arguments by reference outlive the simulation.
class Simulation {
 public:
  // The offloads at the steps in `stays` do not begin, as if the host had no room.
  Simulation(const TaskGraph& graph, const Schedule& schedule, const Machine& machine,
             const TimelineOptions& options, std::unique_ptr<PlacementPolicy> policy,
             std::vector<bool> stays);

  // Simulates the whole schedule, once.
  absl::StatusOr<Timeline> Simulate();

  // Returns, by step, the offloads that did not begin: those given and those without host room.
  const std::vector<bool>& stays() const { return stays_; }

  // The steps, for VisitStep.
  absl::Status Allocate(const ScheduleStep& step);
  absl::Status Free(const ScheduleStep& step);
  absl::Status Run(const ScheduleStep& step);
  absl::Status Offload(const ScheduleStep& step);
  absl::Status Await(const ScheduleStep& step);
  absl::Status Prefetch(const ScheduleStep& step);
  absl::Status Synchronize();

 private:
  using Reason = TimelineStall::Reason;
  using EventKind = TimelineEvent::Kind;

  struct Datum {
    bool is_out = false;          // its offload was awaited, or it began on the host
    double held_since = 0;        // begin of its current device memory
    double written = 0;           // end of the last task that wrote or updated it
    double used = 0;              // end of the last task that used it
    double fetched = 0;           // end of the last prefetch
    double copied = 0;            // end of the last copy in either direction
    double density = -1;          // of its last offload
    std::int64_t host_bytes = 0;  // bytes on the host, beside the room of its home
  };

  absl::Status TakeHomes();
  absl::Status NoHomeError(std::size_t data) const;

  // Returns the time at which a step's work would begin on an idle compute stream.
  double Position() const;

  // Memory of the device.
  absl::Status TakeDeviceMemory(std::size_t data, Hint hint);
  absl::StatusOr<BlockId> TakeBlock(std::int64_t bytes, Hint hint);
  absl::StatusOr<BlockId> TakePlannedBlock(std::int64_t bytes);
  void ReturnArrivedData();
  void AwaitUnscheduled(std::size_t data);
  void AwaitData(std::size_t data);
  void GiveDeviceMemory(std::size_t data, double seconds);
  absl::Status NoRoomError(std::int64_t bytes) const;
  absl::Status NotPlannedError(std::size_t request, std::int64_t bytes) const;

  // Tasks.
  double StartTask(std::size_t index);
  void SetUses(const GraphTask& task, double end);

  // Copies.
  double CopySeconds(std::int64_t bytes, double density, TransferDirection direction) const;
  std::int64_t HostBytes(std::int64_t bytes, double density) const;
  void SetTail(Ready& stream, double end, std::size_t data);

  void AddEvent(EventKind kind, std::size_t index, double start, double end);
  void FinishTimeline();

  const TaskGraph& graph_;
  const Schedule& schedule_;
  const MachineLink& link_;
  const std::int64_t host_bytes_;
  const TimelineOptions& options_;
  std::vector<bool> stays_;
  int threads_;
  DeviceMemory memory_;
  HostRoom host_room_;
  MemoryCurve device_;
  schedule::LineOfData leaving_;
  std::vector<Datum> data_;
  std::size_t at_ = 0;        // the current step
  std::size_t requests_ = 0;  // requests of the plan so far
  Ready host_;
  Ready compute_;  // includes the waits that were queued on the stream
  double task_end_ = 0;
  Ready out_;
  Ready in_;
  Timeline timeline_;
};

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_SIMULATION_H_
