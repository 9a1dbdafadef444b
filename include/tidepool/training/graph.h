// SPDX-License-Identifier: Apache-2.0
// TaskGraph: the tasks of one training iteration, their data and their order. Offload policies turn
// it into schedules; the simulator and the executor run those.
//
// Pure data: nothing here touches a device or a clock.
#ifndef TIDEPOOL_TRAINING_GRAPH_H_
#define TIDEPOOL_TRAINING_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/training/layer_parameters.h"

namespace tidepool {

// Limits of a graph: the bytes of one datum or workspace, the bytes of all data, the seconds of one
// task, and the rate of the link.
inline constexpr std::int64_t kMostDataBytes = std::int64_t{1} << 50;
inline constexpr std::int64_t kMostGraphBytes = std::int64_t{1} << 60;
inline constexpr double kMostTaskSeconds = 1e9;
inline constexpr double kMostLinkBytesPerSecond = 1e18;

enum class DataKind : std::uint8_t {
  kInput,           // exists before the iteration: a batch, its labels
  kWeight,          // exists before and after: parameters, statistics
  kActivation,      // made by a forward task
  kGradient,        // of an activation
  kWeightGradient,  // of a weight
  kOptimizerState,  // exists before and after: momentum, the moments of Adam, master weights
};

// The place of data before or after an iteration.
enum class DataHome : std::uint8_t { kDevice, kHost, kNowhere };

// The type of numbers: of a tensor, or of the arithmetic of a task. kTensorFloat32 is arithmetic
// only: float32 numbers, multiplied with 10 bits of mantissa.
enum class DataType : std::uint8_t {
  kUnknown,
  kFloat64,
  kFloat32,
  kTensorFloat32,
  kFloat16,
  kBfloat16,
  kInt64,
  kInt32,
  kInt8,
  kUint8,
};

// Return the default home of data of a kind.
constexpr DataHome HomeBefore(DataKind kind) {
  const bool is_there =
      kind == DataKind::kInput || kind == DataKind::kWeight || kind == DataKind::kOptimizerState;
  return is_there ? DataHome::kDevice : DataHome::kNowhere;
}
constexpr DataHome HomeAfter(DataKind kind) {
  return kind == DataKind::kInput ? DataHome::kNowhere : HomeBefore(kind);
}

struct GraphData {
  std::string name;  // unique among data
  std::int64_t bytes = 0;
  DataKind kind = DataKind::kActivation;
  // Data at home on the host begins with a copy there, and the iteration ends with one there.
  DataHome before = HomeBefore(kind);
  DataHome after = HomeAfter(kind);
  DataType type = DataType::kUnknown;

  friend bool operator==(const GraphData&, const GraphData&) = default;
};

// Return whether data exists before and after an iteration.
inline bool ExistsBefore(const GraphData& data) { return data.before != DataHome::kNowhere; }
inline bool ExistsAfter(const GraphData& data) { return data.after != DataHome::kNowhere; }

// The part of a batch that one algorithm computes at once.
struct MicroBatch {
  std::string algorithm;
  std::int64_t samples = 0;

  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

// One way to compute a task: an algorithm on the whole batch, or a configuration.
struct TaskAlgorithm {
  std::string name;
  double seconds = 0;
  std::int64_t workspace_bytes = 0;  // only while it runs
  // A configuration has its micro-batches, in order. Empty: the whole batch at once.
  std::vector<MicroBatch> micro_batches = {};

  friend bool operator==(const TaskAlgorithm&, const TaskAlgorithm&) = default;
};

enum class TaskPhase : std::uint8_t { kForward, kBackward, kUpdate };

// The gradients that a backward task computes: all of its layer, those of data, or those of
// weights.
enum class TaskGradients : std::uint8_t { kAll, kData, kWeights };

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
  TaskGradients gradients = TaskGradients::kAll;
  // Whether the task writes the same values when it runs again on the same data. It updates nothing
  // in place, and draws random numbers only from a seed that it reads.
  bool may_rerun = false;
  LayerParameters parameters = {};
  DataType data_type = DataType::kUnknown;     // of the tensors of the layer
  DataType compute_type = DataType::kUnknown;  // of the arithmetic

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
// - Homes: inputs, weights and optimizer state exist before the iteration. Data that exists before
// it has the same home after it, because the next iteration begins there; an input may have none.
// - No task writes data that exists before the iteration. Exactly one task writes each other datum.
// A weight gradient that exists before has at most one writer, which writes over the old values. A
// task comes after all tasks that write the data that it reads or updates.
// - Some task reads or updates each datum, except data that exists after the iteration, and
// results. A task's data are results if no other task reads or updates any of it.
// - The micro-batches of a configuration have 1 sample or more and sum to the batch of the graph.
// - A task that may run again updates nothing and is no update. Only backward
// tasks compute gradients of data or of weights alone.
// Numbers of layers are at most kMostLayerNumber, and groups divide the channels.
// Otherwise InvalidArgument, with the name of the task or the data. O(tasks + data + uses).
TIDEPOOL_EXPORT absl::Status ValidateGraph(const TaskGraph& graph);

// Sorts tasks into an order in which they can run. Among runnable tasks, the first in `graph.tasks`
// comes first (Kahn's algorithm, Communications of the ACM 5, 1962, with a heap). A task that
// updates data keeps its position among the tasks that read or update that data. InvalidArgument
// for an invalid index, and for a cycle, with its tasks; then the graph is unchanged. O((tasks +
// uses) log tasks).
TIDEPOOL_EXPORT absl::Status SortTasks(TaskGraph& graph);

// Read and write graphs as JSON (docs/formats/task_graph.md), version 2. Reading accepts version 1
// and gzip, sorts the tasks and validates. Errors are InvalidArgument with `FILE:LINE: fault,
// expectation`. Memory is the size of the graph and of the values in the file, with 16 bytes for
// each; time is linear, except for the sort.
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> ReadGraph(const std::filesystem::path& path);
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> ParseGraph(std::string_view json, std::string_view name);
// Validates the graph, and writes the whole file or none. A path that ends in ".gz" is compressed.
TIDEPOOL_EXPORT absl::Status WriteGraph(const TaskGraph& graph, const std::filesystem::path& path);
// Returns the text of a valid graph. ParseGraph turns it into the same graph, with times equal to
// the last bit; the text of that graph is the same.
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

// Returns a configuration: `algorithms[i]` computes a micro-batch of `samples[i]`, with the time
// and the workspace that it has for them. Seconds are the sum, the workspace is the maximum.
// InvalidArgument for lists of different sizes, empty lists, and micro-batches of no samples.
// O(micro-batches).
TIDEPOOL_EXPORT absl::StatusOr<TaskAlgorithm> MakeConfiguration(
    std::string name, const std::vector<TaskAlgorithm>& algorithms,
    const std::vector<std::int64_t>& samples);

// Return the names in files: "input", "weight", "activation", "gradient", "weight-gradient",
// "optimizer-state"; "device", "host", "nowhere"; "float32", "tensor-float32", ..., "unknown";
// "forward", "backward", "update"; "all", "data", "weights"; "convolution", ..., "unknown".
TIDEPOOL_EXPORT std::string_view DataKindName(DataKind kind);
TIDEPOOL_EXPORT std::string_view DataHomeName(DataHome home);
TIDEPOOL_EXPORT std::string_view DataTypeName(DataType type);
TIDEPOOL_EXPORT std::string_view TaskPhaseName(TaskPhase phase);
TIDEPOOL_EXPORT std::string_view TaskGradientsName(TaskGradients gradients);
TIDEPOOL_EXPORT std::string_view LayerParametersName(const LayerParameters& parameters);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_GRAPH_H_
