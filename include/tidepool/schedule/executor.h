// SPDX-License-Identifier: Apache-2.0
// Executor: carries out a schedule on a device, iteration by iteration.
//
// It does with real streams the steps that timeline.h simulates. The caller's function queues tasks
// on a compute stream. Data and workspaces are buffers of an Offloader. The host runs ahead of the
// device; it waits where the schedule has a wait, and where memory must leave before it can be used
// again. With OffloaderOptions::Release::kWhenAwaited, memory is given back at the same steps as in
// a simulation with `releases_early` = false. So buffers are requested and placed in the simulated
// order.
//
// At most one thread may use an executor at a time; different calls may come from different
// threads. Executors that share an offloader may run at the same time, but any of them may then
// return the error of a copy. The caller's functions throw no exceptions.
#ifndef TIDEPOOL_SCHEDULE_EXECUTOR_H_
#define TIDEPOOL_SCHEDULE_EXECUTOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/device.h"
#include "tidepool/export.h"
#include "tidepool/schedule/graph.h"
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
};
// Queues a task's work and does not wait for it.
using LaunchTask = std::function<absl::Status(const TaskLaunch& launch)>;
// Queues on `stream` the work that fills data before the iteration: inputs in every iteration,
// weights before the first.
using FillData = std::function<absl::Status(std::size_t data, void* address, Stream stream)>;

struct ExecutorOptions {
  // Makes Run measure the start and the end of each task and copy, with host functions on streams.
  bool measures = false;
  // Returns seconds since a fixed time, on any thread. Null: the machine's steady clock.
  std::function<double()> clock = nullptr;
  // Run calls it before each step, on its own thread, with the number of the step. The device may
  // lag: steps only queue work. Null: not called.
  std::function<void(std::size_t step)> on_step = nullptr;
};

class TIDEPOOL_EXPORT Executor {
 public:
  // Creates an executor. It copies `graph`, which is valid, and `schedule`; `device` and
  // `offloader` outlive it. Without `fill`, the initial contents of inputs and weights are
  // undefined. Compressed data is compressed in words of 32 bits. Errors: those of
  // ValidateSchedule; InvalidArgument for a null device, offloader or `launch`; those of the
  // device.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(Device* device, Offloader* offloader,
                                                          const TaskGraph& graph,
                                                          const Schedule& schedule,
                                                          LaunchTask launch, FillData fill,
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
  virtual absl::StatusOr<Timeline> Run() = 0;

 protected:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
};

// Returns a launch function for devices with streams that run host functions. Each task sleeps for
// the time that the graph gives, times `scale` (0 or more), on the stream's thread. `device`
// outlives the function; `graph` need not.
TIDEPOOL_EXPORT LaunchTask SleepingTasks(Device* device, const TaskGraph& graph, double scale);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_EXECUTOR_H_
