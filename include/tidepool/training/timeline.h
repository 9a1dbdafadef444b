// SPDX-License-Identifier: Apache-2.0
// Timeline: the times of all tasks and copies of a training iteration. An event-driven simulator
// with its own clock predicts them, or the executor measures them (executor.h).
//
// A schedule of a pool runs on the first device of its machine. Memory is placed by the same
// policies and block map as in live pools, in the order of the steps (PlaceInPool), so the result
// includes fragmentation.
#ifndef TIDEPOOL_TRAINING_TIMELINE_H_
#define TIDEPOOL_TRAINING_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/copies/compression_profile.h"
#include "tidepool/export.h"
#include "tidepool/planned_placement.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

// How a schedule of a pool takes its memory and compresses its copies.
struct PlacingOptions {
  std::int64_t alignment = 512;
  std::string placement = "best-fit";
  // Plan for the placement `planned`. Null: the plan of PlanSchedule, made again without the
  // kOffload steps of data that stays for lack of host memory. If that plan needs more
  // than the memory, best-fit is used. Sent data at the place of an allocation is dropped before.
  std::shared_ptr<const PlacementPlan> plan = nullptr;
  // The host compresses and decompresses copies. Compressed data takes its expected size there.
  CompressionProfile compression = {};
  int compression_threads = 0;  // 0: the number that the profile recommends
};

// A schedule of a pool with the offsets that the pool gives.
struct PlacedSchedule {
  Schedule schedule = {};  // with fixed addresses
  // For each step of `schedule`, the number of its step in the schedule of the pool. A drop that
  // comes earlier than there has the number of the step that needs its memory.
  std::vector<std::size_t> steps = {};
  // The steps of `schedule` as those of a pool. A pool of the same size serves the requests at the
  // same offsets.
  Schedule resolved = {};
  std::int64_t stayed = 0;      // offloads that are left out because the host has no room
  std::int64_t pool_bytes = 0;  // the highest end of any block
  std::shared_ptr<const PlacementPlan> plan = nullptr;  // that the placement `planned` followed
};

// A task or copy of one stream. Seconds count from the start of the iteration.
struct TimelineEvent {
  // kReceive and kAdd are copies from another device.
  enum class Kind : std::uint8_t { kTask, kOffload, kPrefetch, kReceive, kAdd };

  Kind kind = Kind::kTask;
  std::size_t index = 0;  // task or data
  std::size_t step = 0;   // number of the step in the schedule
  double start = 0;
  double end = 0;
  // The device, kHostDevice for tasks of the host, and the number of its compute stream or core.
  std::size_t device = 0;
  std::size_t stream = 0;
  std::size_t repetition = 0;  // of rounds: their passes are counted over the whole schedule
};

// A time in which the compute stream waits before a task.
struct TimelineStall {
  enum class Reason : std::uint8_t {
    kData,         // the task uses data that is still being fetched
    kMemory,       // no room until data had left, or a copy of freed data had finished
    kSynchronize,  // the schedule makes the host wait
  };

  std::size_t task = 0;
  double start = 0;
  double seconds = 0;
  Reason reason = Reason::kData;
  std::size_t data = 0;  // the cause of the wait; for kSynchronize, the copy that finished last
  std::size_t device = 0;
  std::size_t stream = 0;  // among the compute streams of the device
};
// Returns "data", "memory" or "synchronize".
TIDEPOOL_EXPORT std::string_view StallReasonName(TimelineStall::Reason reason);

// The memory in use from `seconds` on.
struct MemoryPoint {
  double seconds = 0;
  std::int64_t bytes = 0;
};

// The memory of one device over time.
struct DeviceTimeline {
  std::vector<MemoryPoint> memory;
  std::int64_t peak_bytes = 0;
  std::int64_t pool_bytes = 0;
};

struct Timeline {
  double seconds = 0;  // duration of the iteration, with all copies
  // Seconds from the end of the last iteration but one to the end of the last: the time of one
  // iteration among many. 0: there was one iteration only.
  double steady_seconds = 0;
  double compute_seconds = 0;         // sum over all tasks of devices
  std::vector<TimelineEvent> events;  // sorted by start, then by step
  std::vector<TimelineStall> stalls;  // in the order of tasks
  std::int64_t bytes_out = 0;
  std::int64_t bytes_in = 0;
  std::int64_t bytes_received = 0;  // by devices from other devices
  std::int64_t stayed = 0;          // offloads that are left out because the host has no room
  // Curves of the bytes live on the device, in aligned sizes, and of the bytes kept on the host,
  // from the start of an offload to the end of the last prefetch. Times ascend and differ, and so
  // do the bytes of neighbouring points.
  std::vector<MemoryPoint> device_memory;
  std::vector<MemoryPoint> host_memory;
  std::int64_t peak_device_bytes = 0;
  std::int64_t peak_host_bytes = 0;
  // The highest end of any block of the pool. It exceeds `peak_device_bytes` by fragmentation, and
  // by the memory of offloaded data that was not needed yet.
  std::int64_t pool_bytes = 0;
  // The devices 1, 2, ... of a machine with several; the three fields above are of device 0.
  std::vector<DeviceTimeline> further_devices;
  // The plan that the placement `planned` followed.
  std::shared_ptr<const PlacementPlan> plan = nullptr;
  // PlacedSchedule::resolved for a pool, and the schedule for fixed addresses and pages.
  Schedule resolved;
};

// Gives a valid schedule of a pool the addresses that a pool would give it: the placement policy of
// `options` places each allocation in a block map, in the order of the steps. The pool has the
// memory of the machine's first device, cut to a multiple of the alignment.
//
// Sent data that no task uses before its drop is dropped where an allocation has no room, in the
// order in which it was sent. If the pool is then too fragmented, all is placed again, and data is
// dropped once 32 others have been sent after it, or 16, and so on down to none. An offload is left
// out where the host has no room for its copy, and its data stays, without its drops and its next
// prefetch. Data that is compressed by the host takes its expected size there.
//
// Errors are ValidateSchedule's and ValidateMachine's; InvalidArgument for options out of range,
// and for other memory than a pool; NotFound for an unknown placement policy. ResourceExhausted
// when an allocation does not fit even after all sent data was dropped: the text names the task,
// the data, its bytes, and the data that holds the memory. Thread-safe. O((steps + uses) log
// blocks), at most eight times.
TIDEPOOL_EXPORT absl::StatusOr<PlacedSchedule> PlaceInPool(const TaskGraph& graph,
                                                           const Schedule& schedule,
                                                           const Machine& machine,
                                                           const PlacingOptions& options = {});

// Simulates one iteration of a valid `graph`. A schedule of a pool is placed first (PlaceInPool).
// The steps of its events are numbers in that schedule. For a schedule with fixed addresses or
// pages, the options have no effect. Errors are those of ValidateSchedule, PlaceInPool and
// LowerSchedule. Thread-safe.
TIDEPOOL_EXPORT absl::StatusOr<Timeline> Simulate(const TaskGraph& graph, const Schedule& schedule,
                                                  const Machine& machine,
                                                  const PlacingOptions& options = {});

// Simulates a schedule with fixed addresses or pages on a machine: ValidateSchedule, LowerSchedule
// and SimulateProgram. With two iterations or more the timeline has their steady time. Errors are
// those of the first two. Thread-safe.
TIDEPOOL_EXPORT absl::StatusOr<Timeline> Simulate(absl::Span<const TaskGraph> graphs,
                                                  const Schedule& schedule, const Machine& machine,
                                                  const LowerOptions& options = {});

// Returns the times of all operations of a program of LowerSchedule. Each operation starts as soon
// as its stream and its waits allow, and its channel if copies of several streams divide it.
// Thread-safe. Without such channels it takes the longest path, in O(operations + waits). With them
// it needs a queue of events: O((operations + waits) log operations).
TIDEPOOL_EXPORT std::vector<OperationTimes> TimeProgram(const Program& program);

// Simulates a program of LowerSchedule. A device's memory is in use from the start of the first
// operation that uses it to the end of the last. The host keeps a copy from the start of the copy
// out to the end of the last copy in before the data is freed. `resolved` is empty. Thread-safe.
// O(operations log streams) beyond TimeProgram.
TIDEPOOL_EXPORT Timeline SimulateProgram(const TaskGraph& graph, const Program& program);

// Writes a Chrome trace, which Perfetto opens: each stream of each device is a track, which shows
// its stalls too, and memory is a counter. Writes the whole file or none; a path that ends in ".gz"
// is compressed.
TIDEPOOL_EXPORT absl::Status WriteTimeline(const TaskGraph& graph, const Timeline& timeline,
                                           const std::filesystem::path& path);
TIDEPOOL_EXPORT std::string TimelineJson(const TaskGraph& graph, const Timeline& timeline);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_TIMELINE_H_
