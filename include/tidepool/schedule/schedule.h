// Schedule: a training iteration as a program of what the host does, in order: memory taken and
// given back, tasks started, data sent out and fetched. What offload policies make of a TaskGraph,
// the simulator predicts (timeline.h) and an executor carries out (executor.h).
//
// Steps only start things. The device runs tasks in the order of their steps, on one stream, and
// copies in the order of theirs, on a stream for each direction. Memory is handed out in the order
// of steps, so the places that a schedule gets do not depend on how long anything takes.
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
  // Memory of the device for data that is nowhere. When there is no room, it waits on the host for
  // data that is going out, the first that was sent first.
  kAllocate,
  // Data is needed no more, wherever it is: its memory is given back behind the tasks before.
  kFree,
  // A task: its workspace is taken, it is queued, the workspace is given back behind it. On the
  // device it waits for the data that it uses and that is being fetched.
  kRun,
  // Sends data to the host: the copy begins when the last task before that wrote or updated it is
  // over. Until it is fetched, no task uses it. When the host has no room it stays on the device.
  kOffload,
  // Waits on the host until data that is going out is there, and gives its memory back behind the
  // tasks before. Nothing when it did not leave, or was waited for before.
  kAwait,
  // Takes memory, as kAllocate does, and fetches data that was sent out: the copy begins when all
  // tasks before are over. Data that is on the device, or has not yet been waited for, stays there.
  kPrefetch,
  // Waits on the host until tasks and copies are over, and for all that is going out.
  kSynchronize,
};
// "allocate", "free", "run", "offload", "await", "prefetch", "synchronize".
TIDEPOOL_EXPORT std::string_view StepKindName(StepKind kind);

struct ScheduleStep {
  StepKind kind = StepKind::kRun;
  std::size_t index = 0;        // of the task for kRun, of data for others; 0 for kSynchronize
  std::size_t algorithm = 0;    // of the task
  Hint hint = Hint::kResident;  // of the memory of kAllocate and kPrefetch
  // Of kOffload: the share of words that are not zero, when it is to be compressed; -1: as it is.
  double density = -1;

  friend bool operator==(const ScheduleStep&, const ScheduleStep&) = default;
};

struct Schedule {
  std::string policy;             // that made it, as people read it
  std::uint64_t fingerprint = 0;  // GraphFingerprint of its graph
  std::vector<ScheduleStep> steps;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Of data (names, sizes, kinds) and tasks (names, uses, names and workspaces of algorithms), in
// their order; times, phases and layers count nothing: the same in every process. O(graph).
TIDEPOOL_EXPORT std::uint64_t GraphFingerprint(const TaskGraph& graph);

// OK when the schedule is one of `graph` (FailedPrecondition otherwise) and can run: each task
// once, after the tasks that it depends on; what a task uses is on the device or being fetched, and
// what it writes was allocated; no data is allocated twice, or lost: freed while a later task needs
// it. InvalidArgument with the number of the step, the names, and what was expected. Weights and
// input are there as soon as they are allocated. In the end all weights are on the device, or being
// fetched, and all other data is freed. Whether there is memory enough is not asked here.
// Thread-safe. O(steps + uses).
TIDEPOOL_EXPORT absl::Status ValidateSchedule(const TaskGraph& graph, const Schedule& schedule);

// When data that is sent out gives its memory back: at the step `kAwait` or `kSynchronize` that
// waits for it, or `kFree`, and no sooner; or at once, if such a step comes before it is fetched.
enum class Leaving : std::uint8_t { kWhenAwaited, kAtOnce };

// What a schedule asks of a pool when all data that is sent out leaves, as a trace: to size or to
// plan a pool. Workspaces are "TASK.workspace"; data that comes back has its own name
// again. Times are numbers of steps. Errors: those of ValidateSchedule; InvalidArgument where data
// has the name of a workspace. Thread-safe. O(steps + uses).
TIDEPOOL_EXPORT absl::StatusOr<Trace> ScheduleTrace(const TaskGraph& graph,
                                                    const Schedule& schedule,
                                                    Leaving leaving = Leaving::kWhenAwaited);

// Offsets for all allocations of a schedule, in their order, as if data left at once: what runs the
// schedule there has to wait for data that lies in the way, and for nothing else. Little more than
// is live at the peak, by a plan that is made at once and always the same; where that needs more
// than `memory_bytes`, one that does not is looked for, for a second. `alignment` is a power of two
// up to 1 GiB. Errors: those of ScheduleTrace and MakePlan. O(steps log steps) as a rule, and that
// second.
TIDEPOOL_EXPORT absl::StatusOr<std::shared_ptr<const PlacementPlan>> PlanSchedule(
    const TaskGraph& graph, const Schedule& schedule, std::int64_t alignment,
    std::int64_t memory_bytes);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_SCHEDULE_H_
