// SPDX-License-Identifier: Apache-2.0
// Executor: carries out a schedule on devices, iteration by iteration. The caller's function queues
// tasks.
//
// The schedule has fixed addresses or pages. PlaceInPool (timeline.h) gives addresses to the
// schedule of a pool. The executor queues the operations of its Program (program.h). Memory of the
// devices and of the host, streams, events and all addresses are made beforehand. An iteration
// allocates nothing, and the host waits only for its end, except for copies that the host
// compresses.
//
// Pages need devices with virtual memory. Each stay of data on a device has addresses of its own,
// at which its pages are mapped beforehand, so one page is mapped at several addresses. An
// iteration makes no call to map and no wait for one: the waits of the program order the uses of a
// page. Only where weights end an iteration in other pages than they began it, Run maps these pages
// again before the next one, while the device has no work; that takes time of the host for each
// page and stay.
//
// At most one thread may use an executor at a time; different calls may come from different
// threads. The caller's functions throw no exceptions.
#ifndef TIDEPOOL_TRAINING_EXECUTOR_H_
#define TIDEPOOL_TRAINING_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/copies/compression_pipeline.h"
#include "tidepool/copies/density_probe.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/timeline.h"

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
  // Returns seconds since a fixed time. Null: the machine's steady clock.
  std::function<double()> clock = nullptr;
  // Run calls it before each step, on its own thread, with the number of the step. The device may
  // lag: steps only queue work. Steps without work, such as kDrop, are left out. Null: not called.
  std::function<void(std::size_t step)> on_step = nullptr;
  // Every how many iterations, beginning with the first, Run tells the density of data that left
  // and came back: after the iteration, from its copies on the host. 0: never. It calls
  // `on_density` on its own thread. Data that moves in parts is probed in the first part that came
  // back.
  int probe_every = 0;
  std::function<void(std::size_t data, const DensityEstimate& estimate)> on_density = nullptr;
  // The host compresses copies, in the place of the device: those out with a density, and those in
  // of data that was last sent by such a one, in words of 32 bits. Data is copied whole then. The
  // compressed bytes are in the memory of the pipeline, which must have room for all of them: the
  // iteration fails with ResourceExhausted where it has not. Streams wait for these copies by host
  // functions, and Run waits for the end of a copy out before it queues the copy in. The pipeline
  // belongs to the executor's device, outlives the executor and serves no other one. Null: the host
  // compresses nothing.
  CompressionPipeline* pipeline = nullptr;
  // Queues the copies that a device compresses: those out with a density, and those in of data that
  // was last sent by such a one. Null: they are raw, as of a device without a compressor.
  CopyCompressed copy_compressed = nullptr;
  // Adds up gradients in schedules with steps kAdd. Only the caller knows the type of their
  // elements.
  AddReceived add_received = nullptr;
};

// Returns the schedule as an executor on these devices runs it: with pages as large as those of the
// schedule and of the devices' virtual memory. Its times and its memory are those of the run. A
// schedule without pages is returned as it is. InvalidArgument where neither of the two sizes is a
// multiple of the other, and for too few devices; FailedPrecondition for a device without virtual
// memory.
TIDEPOOL_EXPORT absl::StatusOr<Schedule> WithPagesOf(absl::Span<Device* const> devices,
                                                     const Schedule& schedule);

class TIDEPOOL_EXPORT Executor {
 public:
  // Creates an executor. It copies `graphs` and `schedule`, for which LowerSchedule tells the
  // meaning and the rules; `devices` outlive it, and the schedule's device i is `devices[i]`. The
  // executor takes `machine`'s numbers of streams and kinds of links, and no rates. All devices are
  // of the same kind, because their streams wait for each other. All host memory is pinned by the
  // first device, and the tasks of each core of the host are queued on a stream of it, which runs
  // host functions. Without `fill`, the initial contents of data at home are undefined.
  //
  // Takes all memory, streams and events, so Run takes none. Errors: those of ValidateAddresses and
  // LowerSchedule; InvalidArgument for a null device or `launch`, for fewer devices than the
  // schedule has, for a negative `probe_every`, for probes without `on_density`, for steps kAdd
  // without `add_received`, for both `pipeline` and `copy_compressed`, with a pipeline for several
  // devices and for compressed copies of a part of the data, and for schedules of a pool; those of
  // WithPagesOf; those of the devices.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(absl::Span<Device* const> devices,
                                                          absl::Span<const TaskGraph> graphs,
                                                          const Schedule& schedule,
                                                          const Machine& machine, LaunchTask launch,
                                                          FillHome fill,
                                                          const ExecutorOptions& options);
  // Waits for the queued work and frees all data.
  virtual ~Executor() = default;

  // Runs an iteration and waits for its end. Weights stay for the next iteration. When a step
  // fails, Run waits for all queued work and returns the error once, with the step and its names.
  // The next call begins again, with weights filled again.
  //
  // The timeline has the seconds of the iteration, the bytes copied, and as peaks the memory that
  // the executor holds. With `measures` it also has events, the seconds of tasks, and stalls.
  virtual absl::StatusOr<Timeline> Run() = 0;

  // Runs another schedule of the same graph from the next iteration on, such as one that compresses
  // other copies (adaptive_compression.h). Data that exists between iterations stays as it is.
  // After an error the schedule is the one from before. Errors: those of the schedule's checks at
  // the creation, and of the device.
  //
  // The schedule runs in the memory that the executor holds; the host's memory grows where it needs
  // more. InvalidArgument where data that stays on a device between iterations would lie at another
  // offset, for another number of devices, and for schedules with pages, before or after;
  // ResourceExhausted for more bytes on a device, or a larger alignment, than those of the first
  // schedule.
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

#endif  // TIDEPOOL_TRAINING_EXECUTOR_H_
