// SPDX-License-Identifier: Apache-2.0
// TaskGraph: the tasks of one training iteration, their data and their order. Offload policies turn
// it into schedules; simulators and executors run those.
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

// Limits of a graph: the bytes of one datum or workspace, the bytes of all data, the seconds of one
// task, and the rate of the link.
inline constexpr std::int64_t kMostDataBytes = std::int64_t{1} << 50;
inline constexpr std::int64_t kMostGraphBytes = std::int64_t{1} << 60;
inline constexpr double kMostTaskSeconds = 1e9;
inline constexpr double kMostLinkBytesPerSecond = 1e18;

enum class DataKind : std::uint8_t {
  kInput,           // exists before the iteration, not after it: a batch
  kWeight,          // exists before and after: parameters, statistics
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

// One way to compute a task.
struct TaskAlgorithm {
  std::string name;
  double seconds = 0;
  std::int64_t workspace_bytes = 0;  // only while it runs

  friend bool operator==(const TaskAlgorithm&, const TaskAlgorithm&) = default;
};

enum class TaskPhase : std::uint8_t { kForward, kBackward, kUpdate };

struct GraphTask {
  std::string name;            // unique among tasks
  std::string layer = {};      // forward, backward and update tasks of a layer share it
  std::string operation = {};  // kind of layer: "conv", "max-pool", "relu", "linear", ...
  TaskPhase phase = TaskPhase::kForward;
  // Indices of data. A task reads existing data, writes data that does not exist yet, and updates
  // existing data in place. No index is in two of the three lists.
  std::vector<std::size_t> reads = {};
  std::vector<std::size_t> writes = {};
  std::vector<std::size_t> updates = {};
  // At least one algorithm, in ascending order of workspaces; names are unique.
  std::vector<TaskAlgorithm> algorithms = {};

  friend bool operator==(const GraphTask&, const GraphTask&) = default;
};

struct TaskGraph {
  std::string name;
  std::int64_t batch = 0;  // 0: unknown
  std::vector<GraphData> data;
  std::vector<GraphTask> tasks;  // in an order in which they can run
  // Name of the GPU of the times; empty: unknown. And the rate of its link to the host in each
  // direction; 0: unknown.
  std::string gpu = {};
  double link_bytes_per_second = 0;

  friend bool operator==(const TaskGraph&, const TaskGraph&) = default;
};

// All functions below are thread-safe as long as no two share a graph that one of them changes.

// Returns OK when the graph is valid:
// - There is at least one task, and each task has an algorithm and writes or updates some data.
// - Names are UTF-8, not empty, and unique among data, among tasks, and among the algorithms of a
// task. Layers and operations are UTF-8.
// - The batch is not negative, the GPU is UTF-8, and the link has 0 to kMostLinkBytesPerSecond.
// Data has 1 to kMostDataBytes bytes, together at most kMostGraphBytes. Workspaces have 0 to
// kMostDataBytes bytes, in ascending order. Seconds are 0 to kMostTaskSeconds.
// - Every index is valid, and occurs in a task only once.
// - No task writes data of kInput and kWeight; exactly one task writes each other datum. A task
// comes after all tasks that write the data that it reads or updates.
// - Some task reads or updates each datum, except weights and results. A task's data are results if
// no other task reads or updates any of it. Otherwise InvalidArgument, with the name of the task or
// the data. O(tasks + data + uses).
TIDEPOOL_EXPORT absl::Status ValidateGraph(const TaskGraph& graph);

// Sorts tasks into an order in which they can run. Among runnable tasks, the first in `graph.tasks`
// comes first (Kahn's algorithm, Communications of the ACM 5, 1962, with a heap). A task that
// updates data keeps its position among the tasks that read or update that data. InvalidArgument
// for an invalid index, and for a cycle, with its tasks; then the graph is unchanged. O((tasks +
// uses) log tasks).
TIDEPOOL_EXPORT absl::Status SortTasks(TaskGraph& graph);

// Read and write graphs as JSON (docs/formats/task_graph.md). Reading accepts gzip, sorts the tasks
// and validates. Errors are InvalidArgument with `FILE:LINE: fault, expectation`. Memory is the
// size of the graph and its names; time is linear, except for the sort.
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> ReadGraph(const std::filesystem::path& path);
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> ParseGraph(std::string_view json, std::string_view name);
// Validates the graph, and writes the whole file or none. A path that ends in ".gz" is compressed.
TIDEPOOL_EXPORT absl::Status WriteGraph(const TaskGraph& graph, const std::filesystem::path& path);
// Returns the text of a valid graph. ParseGraph turns it into the same graph, with times equal to
// the last bit.
TIDEPOOL_EXPORT std::string GraphJson(const TaskGraph& graph);

// Replaces times in `graph` by measured ones, from a CSV with the columns task, algorithm and
// seconds. Each row replaces one time, found by name; the remaining times stay. Errors are
// `FILE:LINE: ...` as above, for unknown tasks and algorithms, two rows for one algorithm, seconds
// out of range, and a file without rows. After an error the graph is unchanged.
TIDEPOOL_EXPORT absl::Status ReadTimes(const std::filesystem::path& path, TaskGraph& graph);
TIDEPOOL_EXPORT absl::Status ParseTimes(std::string_view csv, std::string_view name,
                                        TaskGraph& graph);

// Sums over a graph, for people and for checks.
struct GraphTotals {
  std::int64_t inputs = 0;   // bytes of kInput
  std::int64_t weights = 0;  // bytes of kWeight
  std::int64_t activations = 0;
  std::int64_t kept_activations = 0;   // activations that a backward task reads or updates
  std::int64_t largest_task = 0;       // most bytes that one task uses, with its least workspace
  std::size_t largest_task_index = 0;  // the first such task
  double least_seconds = 0;            // every task by its fastest algorithm, in sequence
  double least_workspace_seconds = 0;  // every task by its first algorithm
};
// Returns the sums over a valid graph. O(tasks + data + uses).
TIDEPOOL_EXPORT GraphTotals TotalsOf(const TaskGraph& graph);

// Return the names in files: "input", "weight", "activation", "gradient", "weight-gradient";
// "forward", "backward", "update".
TIDEPOOL_EXPORT std::string_view DataKindName(DataKind kind);
TIDEPOOL_EXPORT std::string_view TaskPhaseName(TaskPhase phase);

}  // namespace tidepool

#endif  // TIDEPOOL_SCHEDULE_GRAPH_H_
