// SPDX-License-Identifier: Apache-2.0
// Schedule: a training iteration as a program for the host. Its steps, in order, allocate and free
// memory, start tasks, and start copies of data to the host and back. Offload policies make a
// schedule from a TaskGraph; the simulator predicts its times (timeline.h) and the executor carries
// it out (executor.h).
//
// Steps only start work, and the host waits for nothing. The device runs tasks in the order of
// their steps, and copies in the order of their steps, on one stream per direction. On the device
// each operation waits, by events, for its data and for the last users of its memory.
//
// There are three sources of addresses (ScheduleMemory); the meaning of a step is the same for all.
#ifndef TIDEPOOL_TRAINING_SCHEDULE_H_
#define TIDEPOOL_TRAINING_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/planned_placement.h"
#include "tidepool/trace/trace.h"
#include "tidepool/training/graph.h"

namespace tidepool {

enum class ScheduleMemory : std::uint8_t {
  // A placement policy places each allocation, in the order of the steps, and may drop sent data
  // earlier than the steps do. PlaceInPool (timeline.h) finds the offsets beforehand, and makes the
  // schedule kFixed.
  kPool,
  // Each step that takes memory names its offset, and nothing is allocated while the schedule runs.
  kFixed,
  // Memory is counted in granules of virtual memory and has no addresses. An allocation takes the
  // granules that were given back first, in the order of the steps that give back. A prefetch takes
  // granules that the last task of a compute stream uses, such as its workspace, when there are no
  // others; so it may begin while that task runs.
  kPaged,
};
// Returns the name in files: "pool", "fixed", "paged".
TIDEPOOL_EXPORT std::string_view ScheduleMemoryName(ScheduleMemory memory);

enum class StepKind : std::uint8_t {
  // Takes memory for data that a task writes before any task reads it.
  kAllocate,
  // Ends the life of data, on either side: its memory is given back after its last use.
  kFree,
  // Takes the task's workspace, queues the task, and gives the workspace back after it. The task
  // waits for the last writers of the data that it reads, for copies out of data that it updates,
  // and for the last users of the memory that it is the first to touch. It runs again where the
  // graph allows that.
  kRun,
  // Copies the bytes [begin, end) to the host and gives no memory back. The copy begins after the
  // last task that wrote the data. Tasks that read the data run beside it. From then on the host
  // has a clean copy of these bytes, until a task updates the data or the data is freed.
  kOffload,
  // Takes memory for the bytes [begin, end), which the host has, and copies them in. The copy
  // begins when their memory is free and the host has them, also while a task runs. The clean copy
  // on the host remains.
  kPrefetch,
  // Each stream waits for all others.
  kSynchronize,
  // Gives the memory of the bytes [begin, end) back after their last use and their copy out. A
  // clean copy on the host remains, or a task that may run again makes the data before its next
  // use.
  kDrop,
  // Copies the bytes [begin, end) from the memory of device `source` to that of `device`, where the
  // data has memory, in place of the values there. They may be a part of a weight gradient alone.
  kReceive,
  // Copies the bytes [begin, end) of a weight gradient from device `source` into a buffer of
  // `device`, and adds them to the values there. The buffer is memory of this step, as the
  // workspace of a task is.
  kAdd,
};
// Returns the name in files: "allocate", "free", "run", "offload", "prefetch", "synchronize",
// "drop", "receive", "add".
TIDEPOOL_EXPORT std::string_view StepKindName(StepKind kind);

// Ranges that devices exchange begin and end at multiples of this, so no element is cut in two.
inline constexpr std::int64_t kElementBytes = 16;

// The device of a kRun that cores of the host run, on the host's copies of the data.
inline constexpr std::size_t kHostDevice = std::numeric_limits<std::size_t>::max();

struct ScheduleStep {
  StepKind kind = StepKind::kRun;
  std::size_t index = 0;        // task for kRun, data otherwise; 0 for kSynchronize
  std::size_t algorithm = 0;    // of the task
  Hint hint = Hint::kResident;  // for the memory of kAllocate and kPrefetch
  // For kOffload: the share of nonzero words when the copy is to be compressed; -1: raw copy. A
  // pool's copies are compressed by the host, others by the device (CopyCompressor in machine.h);
  // copies in of these bytes are decompressed there too.
  double density = -1;
  // A pool has one device and moves data as a whole, so its schedules leave the fields below at
  // these values.
  std::size_t device = 0;  // number of the machine's device, or kHostDevice
  std::size_t stream = 0;  // of kRun: among the device's compute streams, or the host's cores
  // kFixed: the offset of the memory of kAllocate, of the whole data of kPrefetch, of the workspace
  // of kRun, and of the buffer of kAdd; -1: no memory, or not kFixed.
  std::int64_t offset = -1;
  // The bytes [begin, end) of the data of kOffload, kPrefetch, kDrop, kReceive and kAdd; end -1:
  // all from begin. Those of kReceive and kAdd are whole elements: multiples of kElementBytes, or
  // the end of the data.
  std::int64_t begin = 0;
  std::int64_t end = -1;
  std::size_t source = 0;  // of kReceive and kAdd: the number of another device

  friend bool operator==(const ScheduleStep&, const ScheduleStep&) = default;
};

// A run of steps that is repeated.
struct ScheduleRound {
  std::size_t first_step = 0;
  std::size_t steps = 0;
  std::int64_t times = 1;
  std::int64_t batch = 0;  // samples of one repetition; 0: the batch of the graph

  friend bool operator==(const ScheduleRound&, const ScheduleRound&) = default;
};

inline constexpr std::size_t kMostScheduleDevices = 64;
inline constexpr std::int64_t kMostRoundTimes = 1'000'000'000;         // repetitions of one round
inline constexpr std::int64_t kMostAlignment = std::int64_t{1} << 30;  // of a schedule

struct Schedule {
  std::string policy;             // name of the policy that made it
  std::uint64_t fingerprint = 0;  // GraphFingerprint of its graph
  std::vector<ScheduleStep> steps;
  ScheduleMemory memory = ScheduleMemory::kPool;
  // kFixed: the alignment of offsets, a power of two. kPaged: the bytes of a granule.
  std::int64_t alignment = 512;
  std::size_t devices = 1;  // 1 to kMostScheduleDevices, with the numbers 0, 1, ...; a pool has one
  // In order, and together all steps. Empty: every step once. A pool has no rounds.
  std::vector<ScheduleRound> rounds = {};

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Returns a hash of data (names, sizes, kinds, homes) and tasks (names, uses, phases, names and
// workspaces of algorithms, whether they may run again), in their order. Times and layers do not
// count. The value is the same in every process. O(graph).
TIDEPOOL_EXPORT std::uint64_t GraphFingerprint(const TaskGraph& graph);

// Returns OK when `graph` is the schedule's graph (FailedPrecondition otherwise) and the schedule
// can run on it. The places of all data are followed, on each device and the host:
// - Alignment, devices, offsets and ranges are in their limits. A pool has one device, and no
//   rounds.
// - Data begins where GraphData::before says, and ends where `after` says. Data that begins on the
//   device is allocated there first, and has its values. Data that begins on the host is
//   prefetched.
// - A task uses all bytes of data, in the version that the order of the graph asks for. It runs
//   again only where GraphTask::may_rerun says so.
// - A drop keeps a copy on the host, or the task that wrote the data may run again.
// - Bytes that come back fit those that stayed: they have the same version and the same offset.
// - In a round, a device runs all tasks but updates, or none. Updates run once, in the last round;
//   for several devices the host runs them, or devices that have the gradients of all. Only
//   weights, their gradients and optimizer state live across rounds. A weight gradient from an
//   earlier round is added to, once in a round, and an update needs the sum of all rounds. A round
//   that is repeated leaves that data where it was.
// - Devices exchange data in the last round, when the gradient of the round is complete. A device
//   adds the gradient of each other device once. Weights that have new values arrive after the
//   tasks that need the old ones. Steps are in one order for all devices, and each waits for
//   earlier ones alone, so no devices wait for each other.
// Otherwise InvalidArgument, with the number of the step, the names, and the expectation. Neither
// the size of the memory nor overlap of addresses is checked. Thread-safe.
// O((steps + uses) log ranges), independent of the repetitions of rounds.
TIDEPOOL_EXPORT absl::Status ValidateSchedule(const TaskGraph& graph, const Schedule& schedule);
// Checks a schedule with rounds of several batches: `graphs` has the graph at each batch that
// rounds name. The first is the one of the fingerprint and of batch 0. Graphs differ in sizes only,
// and data that lives across rounds has one size.
TIDEPOOL_EXPORT absl::Status ValidateSchedule(absl::Span<const TaskGraph> graphs,
                                              const Schedule& schedule);

// Returns OK when ValidateSchedule does and a schedule with fixed addresses keeps to its memory: in
// the order of steps no live range overlaps another one, workspaces included, and all of them lie
// in the memory of their device (one value a device). Data with a home on the device before and
// after the iteration has its memory from the start on, and ends where it was allocated first.
// Otherwise InvalidArgument, with the step, the data and both ranges. Shares no code with
// FixAddresses. Thread-safe. O(steps log ranges) besides.
TIDEPOOL_EXPORT absl::Status ValidateAddresses(absl::Span<const TaskGraph> graphs,
                                               const Schedule& schedule,
                                               absl::Span<const std::int64_t> memory_bytes);

// Returns a paged schedule with fixed addresses: the same steps, with planned offsets. Ranges of
// one datum lie as in the whole datum. Data that lives across the repetitions of a round has the
// same offset in each of them. Data at home on the device has the same offset at the start and at
// the end of the iteration, also if it is away in between. The memory of such data is kept free for
// it while it is away, and so is that of data of which a part is away; if that does not fit, other
// data uses the memory in the meantime. ResourceExhausted when the planner finds no plan within the
// memory (one value a device), which takes it up to three seconds; InvalidArgument for an alignment
// that is no power of two up to kMostAlignment, and for other memory than paged; errors of
// ValidateSchedule and MakePlan. Thread-safe. O(steps log steps) as a rule, and these seconds.
TIDEPOOL_EXPORT absl::StatusOr<Schedule> FixAddresses(absl::Span<const TaskGraph> graphs,
                                                      const Schedule& schedule,
                                                      std::int64_t alignment,
                                                      absl::Span<const std::int64_t> memory_bytes);

// The time at which sent data gives its memory back in a trace: at the step that drops or frees it;
// or at the offload itself, if no task uses the data before such a step.
enum class Leaving : std::uint8_t { kWhenDropped, kAtOnce };

// Returns the requests that a schedule makes of a pool, as a trace, for sizing and planning.
// Workspaces are called "TASK.workspace"; fetched data has its own name again.
// Times are numbers of steps. Errors are ValidateSchedule's, and InvalidArgument where data has the
// name of a workspace and for a schedule that is not one of a pool. Thread-safe. O(steps + uses).
TIDEPOOL_EXPORT absl::StatusOr<Trace> ScheduleTrace(const TaskGraph& graph,
                                                    const Schedule& schedule,
                                                    Leaving leaving = Leaving::kWhenDropped);

// Returns offsets for all allocations of a schedule, in their order, as if each offload freed its
// memory at once. A machine that follows the plan waits only for data that has not left yet.
// The plan is deterministic, made at once, and needs little more than the peak of live bytes. If it
// exceeds `memory_bytes`, the planner looks for a lower one for a second. `alignment` is a power of
// two up to 1 GiB. Errors are those of ScheduleTrace and MakePlan. O(steps log steps) as a rule,
// and that second.
TIDEPOOL_EXPORT absl::StatusOr<std::shared_ptr<const PlacementPlan>> PlanSchedule(
    const TaskGraph& graph, const Schedule& schedule, std::int64_t alignment,
    std::int64_t memory_bytes);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_SCHEDULE_H_
