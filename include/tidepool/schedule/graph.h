// TaskGraph: one training iteration as what is computed, in which order, and on which data. What
// offload policies decide about, and simulators and executors carry out.
//
// Pure data: nothing here touches a device or a clock.
#ifndef TIDEPOOL_SCHEDULE_GRAPH_H_
#define TIDEPOOL_SCHEDULE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"

namespace tidepool {

// The limits of what a graph may say: of one datum or workspace, of all data, and of one task.
inline constexpr std::int64_t kMostDataBytes = std::int64_t{1} << 50;
inline constexpr std::int64_t kMostGraphBytes = std::int64_t{1} << 60;
inline constexpr double kMostTaskSeconds = 1e9;

enum class DataKind : std::uint8_t {
  kInput,           // there before the iteration, and not after it: a batch
  kWeight,          // there before the iteration and after it: parameters, statistics
  kActivation,      // made by a forward task
  kGradient,        // of an activation
  kWeightGradient,  // of a weight
};

struct GraphData {
  std::string name;  // unique among data
  std::int64_t bytes = 0;
  DataKind kind = DataKind::kActivation;

  friend bool operator==(const GraphData&, const GraphData&) = default;
};

// One way to do a task.
struct TaskAlgorithm {
  std::string name;
  double seconds = 0;
  std::int64_t workspace_bytes = 0;  // while it runs

  friend bool operator==(const TaskAlgorithm&, const TaskAlgorithm&) = default;
};

enum class TaskPhase : std::uint8_t { kForward, kBackward, kUpdate };

struct GraphTask {
  std::string name;        // unique among tasks
  std::string layer = {};  // the task of which layer it is: forward, backward and update share it
  std::string operation = {};  // of the layer: "conv", "max-pool", "relu", "linear", ...
  TaskPhase phase = TaskPhase::kForward;
  // Indexes of data. A task reads what is there, writes what is not there yet, and updates in place
  // what is. None is in two of the three.
  std::vector<std::size_t> reads = {};
  std::vector<std::size_t> writes = {};
  std::vector<std::size_t> updates = {};
  // At least one, in ascending order of workspaces; names are unique.
  std::vector<TaskAlgorithm> algorithms = {};

  friend bool operator==(const GraphTask&, const GraphTask&) = default;
};

struct TaskGraph {
  std::string name;
  std::int64_t batch = 0;  // 0: unknown
  std::vector<GraphData> data;
  std::vector<GraphTask> tasks;  // in an order in which they can run

  friend bool operator==(const TaskGraph&, const TaskGraph&) = default;
};

// All functions below are thread-safe as long as no two share a graph that one of them changes.

// OK when: there is a task; names are not empty, UTF-8, and unique among data and among tasks, as
// are those of the algorithms of a task; layers and operations are UTF-8; the batch is not
// negative; sizes are 1 to kMostDataBytes and together at most kMostGraphBytes, workspaces 0 to
// kMostDataBytes and in ascending order, seconds 0 to kMostTaskSeconds; every index is one, and in
// a task once; data of kInput and kWeight is written by no task, all other by exactly one; each
// task comes after those that write what it reads or updates; each task has an algorithm, and
// writes or updates something; all data is read or updated by some task, but for kWeight, and for
// results: what is written by a task none of whose data is read or updated by another.
// InvalidArgument otherwise: the error names the task or the data. O(tasks + data + uses).
TIDEPOOL_EXPORT absl::Status ValidateGraph(const TaskGraph& graph);

// Brings tasks into an order in which they can run: of those that can, the first in `graph.tasks`
// comes first (Kahn's algorithm, Communications of the ACM 5, 1962, with a heap). A task that
// updates data keeps its place among the tasks that read or update it.
// InvalidArgument when an index is none, and, with the tasks of one, when there is a cycle; then
// the graph is as it was. O((tasks + uses) log tasks).
TIDEPOOL_EXPORT absl::Status SortTasks(TaskGraph& graph);

// JSON, docs/formats/task_graph.md; gzip is read, and written where the path ends in ".gz". Reading
// sorts the tasks and validates; errors are `FILE:LINE: what is wrong, what was expected`,
// InvalidArgument. Memory is that of the graph and of its names, and time linear, but for the
// order.
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> ReadGraph(const std::filesystem::path& path);
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> ParseGraph(std::string_view json, std::string_view name);
// Validates, and leaves no half a file behind.
TIDEPOOL_EXPORT absl::Status WriteGraph(const TaskGraph& graph, const std::filesystem::path& path);
// Of a valid graph. ParseGraph makes the same graph of it, times to the last bit.
TIDEPOOL_EXPORT std::string GraphJson(const TaskGraph& graph);

// Measured times instead of those in `graph`: a CSV with the columns task, algorithm and seconds,
// found by name, one row for each time that was measured; others stay. Errors, after which the
// graph is as it was, are `FILE:LINE: ...` as above: tasks and algorithms that the graph does not
// have, two rows for one, seconds out of range, no row at all.
TIDEPOOL_EXPORT absl::Status ReadTimes(const std::filesystem::path& path, TaskGraph& graph);
TIDEPOOL_EXPORT absl::Status ParseTimes(std::string_view csv, std::string_view name,
                                        TaskGraph& graph);

// Sums over a graph, for people and for checks.
struct GraphTotals {
  std::int64_t inputs = 0;   // bytes of kInput
  std::int64_t weights = 0;  // of kWeight
  std::int64_t activations = 0;
  std::int64_t kept_activations = 0;   // those that a backward task reads or updates
  std::int64_t largest_task = 0;       // what one task touches, the least workspace included
  std::size_t largest_task_index = 0;  // the first such task
  double least_seconds = 0;            // every task by its quickest algorithm, one after the other
  double least_workspace_seconds = 0;  // every task by its first algorithm
};
// Of a valid graph. O(tasks + data + uses).
TIDEPOOL_EXPORT GraphTotals TotalsOf(const TaskGraph& graph);

// "input", "weight", "activation", "gradient", "weight-gradient"; "forward", "backward", "update":
// as files spell them.
TIDEPOOL_EXPORT std::string_view DataKindName(DataKind kind);
TIDEPOOL_EXPORT std::string_view TaskPhaseName(TaskPhase phase);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_GRAPH_H_
