// TaskGraph: one training iteration as what is computed, in which order, and on which data. What
// offload policies decide about, and simulators and executors carry out.
//
// Pure data: nothing here touches a device or a clock.
#ifndef TIDEPOOL_GRAPH_H_
#define TIDEPOOL_GRAPH_H_

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
};

// One way to do a task.
struct TaskAlgorithm {
  std::string name;
  double seconds = 0;
  std::int64_t workspace_bytes = 0;  // while it runs
};

enum class TaskPhase : std::uint8_t { kForward, kBackward, kUpdate };

struct GraphTask {
  std::string name;       // unique among tasks
  std::string layer;      // the task of which layer it is: forward, backward and update share it
  std::string operation;  // of the layer: "conv", "pool", "relu", "linear", ...
  TaskPhase phase = TaskPhase::kForward;
  // Indexes of data. A task reads what is there, writes what is not there yet, and updates in place
  // what is. None is in two of the three.
  std::vector<std::size_t> reads;
  std::vector<std::size_t> writes;
  std::vector<std::size_t> updates;
  // At least one, in ascending order of workspaces; names are unique.
  std::vector<TaskAlgorithm> algorithms;
};

struct TaskGraph {
  std::string name;
  std::int64_t batch = 0;  // 0: unknown
  std::vector<GraphData> data;
  std::vector<GraphTask> tasks;  // in an order in which they can run
};

// OK when: names are not empty and unique; sizes are 1 to 2^50 bytes, workspaces 0 to 2^50, seconds
// finite and not negative; every index is one; data of kInput and kWeight is written by no task,
// all other by exactly one; each task comes after those that write what it reads or updates; each
// task has an algorithm, and writes or updates something; all data is read or updated by some task,
// but for kWeight and for what the last tasks leave. The error names the task or the data.
TIDEPOOL_EXPORT absl::Status ValidateGraph(const TaskGraph& graph);

// Brings tasks into an order in which they can run: of those that can, the first in `graph.tasks`
// comes first; tasks that touch data which some task updates keep their order among each other.
// InvalidArgument, with the tasks of one, when there is a cycle. O(tasks + data) but for names.
TIDEPOOL_EXPORT absl::Status SortTasks(TaskGraph& graph);

// JSON, docs/task_graph.md. Reading sorts the tasks and validates; errors are `FILE:LINE: what is
// wrong, what was expected`. Writing leaves no half a file behind.
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> ReadGraph(const std::filesystem::path& path);
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> ParseGraph(std::string_view json, std::string_view name);
TIDEPOOL_EXPORT absl::Status WriteGraph(const TaskGraph& graph, const std::filesystem::path& path);
TIDEPOOL_EXPORT std::string GraphJson(const TaskGraph& graph);

// Sums over a graph, for people and for checks.
struct GraphTotals {
  std::int64_t weights = 0;  // bytes of kWeight
  std::int64_t activations = 0;
  std::int64_t kept_activations = 0;  // those that a backward task reads
  std::int64_t largest_task = 0;      // what one task touches, the least workspace included
  double least_seconds = 0;           // every task by its quickest algorithm, one after the other
};
TIDEPOOL_EXPORT GraphTotals TotalsOf(const TaskGraph& graph);

}  // namespace tidepool

#endif  // TIDEPOOL_GRAPH_H_
