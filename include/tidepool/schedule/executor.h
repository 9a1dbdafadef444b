// SPDX-License-Identifier: Apache-2.0
// Executor: carries out a schedule on devices, iteration by iteration. The caller's function queues
// tasks. There are two executors.
//
// Create: for schedules of a pool, in a live pool. Data and workspaces are buffers of an Offloader.
// The host runs ahead of the device; it waits at drops of data that is still leaving, at
// kSynchronize, and where data must leave before its memory can be used again. In a simulation the
// device waits there instead of the host, so an iteration may take longer than Simulate predicts.
// With OffloaderOptions::Release::kWhenAwaited, the resolved schedule of a simulation
// (Timeline::resolved) is placed at the simulated offsets. This executor compresses copies on the
// host, and probes densities; for other schedules PlaceInPool and CreateFixed are faster.
//
// CreateFixed: for schedules with fixed addresses. It queues the operations of a Program
// (program.h). Memory of the devices and of the host, streams, events and all addresses are made
// beforehand. An iteration allocates nothing, and the host waits only for its end.
//
// At most one thread may use an executor at a time; different calls may come from different
// threads. Executors that share an offloader may run at the same time, but any of them may then
// return the error of a copy. The caller's functions throw no exceptions.
#ifndef TIDEPOOL_SCHEDULE_EXECUTOR_H_
#define TIDEPOOL_SCHEDULE_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/compress/density_probe.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/machine.h"
#include "tidepool/schedule/offloader.h"
#include "tidepool/schedule/schedule.h"
#include "tidepool/schedule/timeline.h"

namespace tidepool {

// A task to queue on `stream`. Addresses stand in the order of the task's uses.
struct TaskLaunch {
  std::size_t task = 0;       // index in the graph
  std::size_t algorithm = 0;  // index in the task
  Stream stream;
  std::vector<void*> reads = {};
  std::vector<void*> writes = {};
  std::vector<void*> updates = {};
  void* workspace = nullptr;  // null when the algorithm needs no workspace
  // The fields below are of fixed addresses; with a pool they stay as they are.
  // Index in the devices; kHostDevice: a task of the host, on a stream of device 0.
  std::size_t device = 0;
  std::size_t graph = 0;        // index in the graphs: that of the round's batch
  std::int64_t repetition = 0;  // of rounds: their passes are counted over the whole schedule
  // By write, 1 or 0: whether the task adds to the values that are there, the sum of a weight
  // gradient over earlier rounds.
  std::vector<std::uint8_t> adds = {};
  // By read of a task of the host: the number of its addresses in `reads`, one for each copy on
  // the host. Weights and optimizer state have one copy. Of other data each device has one, in the
  // order of devices. Empty for a task of a device: one address each.
  std::vector<std::size_t> read_copies = {};
};
// Queues a task's work and does not wait for it.
using LaunchTask = std::function<absl::Status(const TaskLaunch& launch)>;
// Queues on `stream` the work that fills data before the iteration: inputs in every iteration,
// weights before the first. Data that begins on the host has an address of page-locked memory
// there, which host functions can fill.
using FillData = std::function<absl::Status(std::size_t data, void* address, Stream stream)>;

// An instance of data at home on a device or on the host, to fill before the iteration uses it.
struct HomeFill {
  std::size_t data = 0;     // index in the graph
  std::size_t owner = 0;    // the device that has the data; kHostDevice: the copy of all devices
  bool is_on_host = false;  // `address` is page-locked memory of the host
  std::size_t graph = 0;    // as in TaskLaunch
  std::int64_t repetition = 0;
  void* address = nullptr;
  std::int64_t bytes = 0;
  std::size_t device = 0;  // that has the stream
  Stream stream;
};
// Queues on `stream` the work that fills an instance: inputs in every repetition of a round and
// every iteration, other data before the first iteration.
using FillHome = std::function<absl::Status(const HomeFill& fill)>;

// A copy that a device compresses on its way (CopyCompressor in machine.h). All bytes arrive.
struct CompressedCopy {
  std::size_t device = 0;  // that has the stream
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t bytes = 0;  // that are not compressed
  CopyDirection direction = CopyDirection::kFromDevice;
  Stream stream;
};
// Queues the copy and does not wait for it.
using CopyCompressed = std::function<absl::Status(const CompressedCopy& copy)>;

// Bytes of a weight gradient that have arrived from another device in a buffer.
struct ReceivedGradient {
  std::size_t data = 0;    // index in the graph
  std::size_t device = 0;  // that adds them
  void* sum = nullptr;
  const void* received = nullptr;
  std::int64_t bytes = 0;  // whole elements
  Stream stream;
};
// Queues the addition of the received bytes to the sum and does not wait for it.
using AddReceived = std::function<absl::Status(const ReceivedGradient& gradient)>;

struct ExecutorOptions {
  // Makes Run measure the start and the end of each task and copy, by timed events on streams.
  bool measures = false;
  // Returns seconds since a fixed time, on any thread. Null: the machine's steady clock.
  std::function<double()> clock = nullptr;
  // Run calls it before each step, on its own thread, with the number of the step. The device may
  // lag: steps only queue work. With fixed addresses it is called for steps that run tasks or copy.
  // Null: not called.
  std::function<void(std::size_t step)> on_step = nullptr;
  // Every how many iterations, beginning with the first, Run probes the density of data that has
  // left, from its copy on the host before it is fetched. 0: never. It calls `on_density` on its
  // own thread. For schedules of a pool only.
  int probe_every = 0;
  std::function<void(std::size_t data, const DensityEstimate& estimate)> on_density = nullptr;
  // Queues the compressed copies of schedules with fixed addresses: those out with a density, and
  // those in of data that was last sent by such a one. Null: they are raw, as of a device without a
  // compressor. Copies of a pool's schedule are the offloader's.
  CopyCompressed copy_compressed = nullptr;
  // Adds up gradients in schedules with steps kAdd. Only the caller knows the type of their
  // elements.
  AddReceived add_received = nullptr;
};

class TIDEPOOL_EXPORT Executor {
 public:
  // Creates an executor. It copies `graph`, which is valid, and `schedule`; `device` and
  // `offloader` outlive it. Without `fill`, the initial contents of inputs and weights are
  // undefined. Compressed data is compressed in words of 32 bits. Errors: those of
  // ValidateSchedule; InvalidArgument for a drop without an offload before it, or a use of sent
  // data before its drop; for a null device, offloader or `launch`, for a negative `probe_every`,
  // and for probes without `on_density`; those of the device.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(Device* device, Offloader* offloader,
                                                          const TaskGraph& graph,
                                                          const Schedule& schedule,
                                                          LaunchTask launch, FillData fill,
                                                          const ExecutorOptions& options);
  // Creates an executor for a schedule with fixed addresses. It copies `graphs` and `schedule`, for
  // which LowerSchedule tells the meaning and the rules; `devices` outlive it, and the schedule's
  // device i is `devices[i]`. The executor takes `machine`'s numbers of streams and kinds of links,
  // and no rates. All devices are of the same kind, because their streams wait for each other. All
  // host memory is pinned by the first device, and the tasks of each core of the host are queued on
  // a stream of it, which runs host functions. Without `fill`, the initial contents of data at home
  // are undefined.
  // Takes all memory, streams and events, so Run takes none. Errors: those of ValidateAddresses and
  // LowerSchedule; InvalidArgument for a null device or `launch`, for fewer devices than the
  // schedule has, for probes, for steps kAdd without `add_received`, and for schedules of a pool or
  // with pages; those of the devices.
  static absl::StatusOr<std::unique_ptr<Executor>> CreateFixed(absl::Span<Device* const> devices,
                                                               absl::Span<const TaskGraph> graphs,
                                                               const Schedule& schedule,
                                                               const Machine& machine,
                                                               LaunchTask launch, FillHome fill,
                                                               const ExecutorOptions& options);
  // Waits for the queued work and frees all data.
  virtual ~Executor() = default;

  // Runs an iteration and waits for its end. Weights stay for the next iteration. When a step
  // fails, Run waits for all queued work, frees every buffer, and returns the error once, with the
  // step and its names. The next call begins again, with weights filled again.
  //
  // Without `measures`, the timeline has the seconds of the iteration, the bytes copied and the
  // number of offloads that left their data on the device. With it, the timeline also has events,
  // the seconds of tasks, stalls, and peaks as the host observed them. The peak of host memory is
  // that since the creation of the offloader.
  //
  // With fixed addresses, the peaks are the memory that the executor holds, with and without
  // `measures`.
  virtual absl::StatusOr<Timeline> Run() = 0;

  // Runs another schedule of the same graph from the next iteration on, such as one that compresses
  // other copies (adaptive_compression.h). Data that exists between iterations stays as it is.
  // Requests that come in another order than before may find too little memory. Errors:
  // FailedPrecondition with fixed addresses; those of ValidateSchedule and of the device. After an
  // error the schedule is the one from before.
  virtual absl::Status Reschedule(const Schedule& schedule) = 0;

 protected:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
};

// Returns a launch function of tasks that do nothing. Each takes the time that the graph gives,
// times `scale` (0 or more), in its stream: Device::SpendTime. `device` outlives the function;
// `graph` need not.
TIDEPOOL_EXPORT LaunchTask SleepingTasks(Device* device, const TaskGraph& graph, double scale);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_EXECUTOR_H_
