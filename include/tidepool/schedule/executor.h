// Executor: carries out a schedule on a device, iteration by iteration.
//
// What timeline.h simulates, with real streams: tasks are queued on a compute stream by the
// caller's function, buffers are an Offloader's, workspaces among them. The host runs ahead of the
// device; it waits where the schedule says so, and where memory must have left before it can be
// given to others. With an offloader that releases when awaited, memory is given back where the
// simulator does that does not release early, so it is asked for and placed in the same order.
//
// An executor is for one thread at a time, which need not always be the same. Executors of one
// offloader may run at the same time, but then an error of a copy may be told by any of them. The
// caller's functions throw nothing.
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

// A task to be queued on `stream`. Addresses are in the order of the task's uses.
struct TaskLaunch {
  std::size_t task = 0;       // of the graph
  std::size_t algorithm = 0;  // of the task
  Stream stream;
  std::vector<void*> reads = {};
  std::vector<void*> writes = {};
  std::vector<void*> updates = {};
  void* workspace = nullptr;  // null when the algorithm has none
};
// Queues work and does not wait for it.
using LaunchTask = std::function<absl::Status(const TaskLaunch& launch)>;
// Queues on `stream` what fills data that is there before the iteration: inputs each time, weights
// before the first.
using FillData = std::function<absl::Status(std::size_t data, void* address, Stream stream)>;

struct ExecutorOptions {
  // Whether Run says when everything started and ended, by host functions on the streams.
  bool measures = false;
  // Seconds since any time; for measures, on any thread. None: the machine's.
  std::function<double()> clock = nullptr;
};

class TIDEPOOL_EXPORT Executor {
 public:
  // `graph` is valid and is copied, as is `schedule`; `device` and `offloader` outlive the
  // executor. Without `fill`, what is there before holds anything. Data that is to be compressed is
  // in words of 32 bits. Errors of ValidateSchedule; InvalidArgument without a device, an offloader
  // or a `launch`; and the device's.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(Device* device, Offloader* offloader,
                                                          const TaskGraph& graph,
                                                          const Schedule& schedule,
                                                          LaunchTask launch, FillData fill,
                                                          const ExecutorOptions& options);
  // Waits for what was queued and frees all data.
  virtual ~Executor() = default;

  // One iteration, until everything is over. Weights stay for the next. When a step fails, so does
  // the iteration: all that was queued is waited for, every buffer is freed, and the error, with
  // the step and its names, is returned once. The next call begins again, with weights filled anew.
  // Without `measures` the timeline has the seconds of the iteration, the bytes that were moved and
  // what stayed; with it also events, the seconds of tasks, stalls, and peaks, as the host saw
  // them, that of host memory since the offloader was made.
  virtual absl::StatusOr<Timeline> Run() = 0;

 protected:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
};

// A launch for devices whose streams run host functions: each task takes the time that the graph
// says, times `scale` (0 and more), of one thread that sleeps. `device` outlives it, `graph` need
// not.
TIDEPOOL_EXPORT LaunchTask SleepingTasks(Device* device, const TaskGraph& graph, double scale);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_EXECUTOR_H_
