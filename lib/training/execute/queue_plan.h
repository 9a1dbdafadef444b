// SPDX-License-Identifier: Apache-2.0
// A program with the addresses, streams and events of devices: all that is left is to queue it.
#ifndef TIDEPOOL_LIB_TRAINING_EXECUTE_QUEUE_PLAN_H_
#define TIDEPOOL_LIB_TRAINING_EXECUTE_QUEUE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lib/training/execute/event_plan.h"
#include "lib/training/execute/host_copies.h"
#include "tidepool/device.h"
#include "tidepool/training/executor.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/program.h"
#include "tidepool/training/schedule.h"

namespace tidepool::execute {

// An operation of one stream. It waits for events, does its work, and may record an event.
struct QueuedOperation {
  enum class Kind : std::uint8_t {
    kFill,  // fills data at home, before its first use
    kTask,  // launches a task
    kCopy,  // in either direction, or from another device
    kAdd,   // copies from another device, and adds
    kEnd,   // only waits: for the ends of all streams
  };

  Kind kind = Kind::kEnd;
  CopyDirection direction = CopyDirection::kFromDevice;
  bool is_compressed = false;  // the copy
  std::uint32_t stream = 0;    // index in the program's streams
  std::uint32_t step = 0;      // index in the schedule's steps
  std::uint32_t repetition = 0;
  // In `launches` or `fills`; of kCopy with the host the number of the copy there, of kAdd the
  // data.
  std::uint32_t index = 0;
  std::uint32_t event = EventPlan::kNone;
  std::uint32_t first_wait = 0;  // `waits` entries of the plan's waits, from here on
  std::uint32_t waits = 0;
  void* to = nullptr;  // null for a copy on the host without a place, and so is `from`
  const void* from = nullptr;
  void* sum = nullptr;  // of kAdd; `to` is its buffer
  std::int64_t bytes = 0;
};

struct QueuePlan {
  std::vector<QueuedOperation> operations;  // in queue order; the last one is kEnd
  std::vector<std::uint32_t> waits;         // events
  std::vector<std::size_t> event_devices;   // by event
  std::vector<TaskLaunch> launches;
  std::vector<HomeFill> fills;
};

// Memory and streams of a program.
struct ProgramPlaces {
  std::vector<std::byte*> devices;  // by device: the address of offset 0
  std::byte* host = nullptr;        // of the area of HostCopies
  std::vector<Stream> streams;      // by stream of the program
};

// Returns the device that has the queue of a program's stream. Those of the host's cores are on
// device 0.
std::size_t DeviceOfStream(const ProgramStream& stream);

// Returns the plan of a program of one iteration, lowered from these graphs and this schedule. With
// `fills`, data at home is filled before its first use. O(steps x repetitions + uses).
QueuePlan MakeQueuePlan(absl::Span<const TaskGraph> graphs, const Schedule& schedule,
                        const Program& program, const HostCopies& copies,
                        const ProgramPlaces& places, bool fills);

}  // namespace tidepool::execute

#endif  // TIDEPOOL_LIB_TRAINING_EXECUTE_QUEUE_PLAN_H_
