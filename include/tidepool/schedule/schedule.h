// SPDX-License-Identifier: Apache-2.0
// Schedule: a training iteration as a program for the host. Its steps, in order, allocate and free
// memory, start tasks, and start copies of data to the host and back. Offload policies make a
// schedule from a TaskGraph; the simulator predicts its times (timeline.h) and an executor carries
// it out (executor.h).
//
// Steps only start work. The device runs tasks in the order of their steps, on one stream, and
// copies in the order of their steps, on one stream per direction. Memory is allocated in the order
// of the steps, so the offsets of a schedule do not depend on durations.
#ifndef TIDEPOOL_SCHEDULE_SCHEDULE_H_
#define TIDEPOOL_SCHEDULE_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/planned_placement.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/trace/trace.h"

namespace tidepool {

enum class StepKind : std::uint8_t {
  // Takes device memory for data that is neither on the device nor on the host. When there is no
  // room, waits on the host for data that is leaving, in the order in which it was sent.
  kAllocate,
  // Ends the life of data, on either side: its memory is given back after the tasks queued so far.
  kFree,
  // Takes the task's workspace, queues the task, and gives the workspace back after it. On the
  // device the task waits for prefetches of the data that it uses.
  kRun,
  // Sends data to the host. The copy begins after the last earlier task that wrote or updated the
  // data. No task uses the data before it is fetched. When the host has no room, the data stays.
  kOffload,
  // Waits on the host until leaving data has arrived, and gives its device memory back after the
  // tasks queued so far. Does nothing for data that stayed or was awaited before.
  kAwait,
  // Takes memory, as kAllocate does, and fetches data from the host. The copy begins after all
  // earlier tasks. Data stays there if it is on the device, or if its offload was not awaited yet.
  kPrefetch,
  // Waits on the host until all tasks and copies have finished, and awaits all leaving data.
  kSynchronize,
};
// Returns the name in files: "allocate", "free", "run", "offload", "await", "prefetch",
// "synchronize".
TIDEPOOL_EXPORT std::string_view StepKindName(StepKind kind);

struct ScheduleStep {
  StepKind kind = StepKind::kRun;
  std::size_t index = 0;        // task for kRun, data otherwise; 0 for kSynchronize
  std::size_t algorithm = 0;    // of the task
  Hint hint = Hint::kResident;  // for the memory of kAllocate and kPrefetch
  // For kOffload: the share of nonzero words when the copy is to be compressed; -1: raw copy.
  double density = -1;

  friend bool operator==(const ScheduleStep&, const ScheduleStep&) = default;
};

struct Schedule {
  std::string policy;             // name of the policy that made it
  std::uint64_t fingerprint = 0;  // GraphFingerprint of its graph
  std::vector<ScheduleStep> steps;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Returns a hash of data (names, sizes, kinds) and tasks (names, uses, names and workspaces of
// algorithms), in their order. Times, phases and layers do not count. The value is the same in
// every process. O(graph).
TIDEPOOL_EXPORT std::uint64_t GraphFingerprint(const TaskGraph& graph);

// Returns OK when `graph` is the schedule's graph (FailedPrecondition otherwise) and the schedule
// can run on it. That is:
// - Each task runs once, after the tasks that it depends on.
// - Data that a task uses is on the device or being fetched, and data that it writes was allocated.
// - No data is allocated twice, or freed while a later task needs it.
// - At the end all weights are on the device or being fetched, and all other data is freed.
// Otherwise InvalidArgument, with the number of the step, the names, and the expectation. Weights
// and input exist from their allocation on. The size of the memory is not checked. Thread-safe.
// O(steps + uses).
TIDEPOOL_EXPORT absl::Status ValidateSchedule(const TaskGraph& graph, const Schedule& schedule);

// The time at which an offload gives its memory back in a trace: at the step that awaits or frees
// the data; or at the offload itself, if such a step comes before the prefetch.
enum class Leaving : std::uint8_t { kWhenAwaited, kAtOnce };

// Returns the requests that a schedule makes of a pool, as a trace, for sizing and planning; every
// offload leaves. Workspaces are called "TASK.workspace"; fetched data has its own name again.
// Times are numbers of steps. Errors are ValidateSchedule's, and InvalidArgument where data has the
// name of a workspace. Thread-safe. O(steps + uses).
TIDEPOOL_EXPORT absl::StatusOr<Trace> ScheduleTrace(const TaskGraph& graph,
                                                    const Schedule& schedule,
                                                    Leaving leaving = Leaving::kWhenAwaited);

// Returns offsets for all allocations of a schedule, in their order, as if each offload freed its
// memory at once. A machine that follows the plan only waits for data that lies in the way. The
// plan is deterministic, made at once, and needs little more than the peak of live bytes. If it
// exceeds `memory_bytes`, the planner looks for a lower one for a second. `alignment` is a power of
// two up to 1 GiB. Errors are those of ScheduleTrace and MakePlan. O(steps log steps) as a rule,
// and that second.
TIDEPOOL_EXPORT absl::StatusOr<std::shared_ptr<const PlacementPlan>> PlanSchedule(
    const TaskGraph& graph, const Schedule& schedule, std::int64_t alignment,
    std::int64_t memory_bytes);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_SCHEDULE_H_
