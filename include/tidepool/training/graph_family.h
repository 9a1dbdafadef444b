// SPDX-License-Identifier: Apache-2.0
// GraphFamily: a task graph at any batch. Data has a fixed size and a size per sample; times and
// workspaces come from a table of batches or from a cost model. Sub-batches, micro-batches and
// splits over devices read it.
#ifndef TIDEPOOL_TRAINING_GRAPH_FAMILY_H_
#define TIDEPOOL_TRAINING_GRAPH_FAMILY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"

namespace tidepool {

// The largest batch of a family.
inline constexpr std::int64_t kMostBatch = std::int64_t{1} << 40;

// One algorithm of a task at the batches of the table. Each list has a number for each batch, or
// one number for all of them.
struct AlgorithmCosts {
  std::string name;                           // unique in its task
  std::vector<double> seconds;                // -1: the task has no such algorithm at that batch
  std::vector<std::int64_t> workspace_bytes;  // 0 where the algorithm is missing

  friend bool operator==(const AlgorithmCosts&, const AlgorithmCosts&) = default;
};

// Sets the algorithms of all tasks of `graph`, which has the sizes and the layer parameters of its
// batch. The order of algorithms does not matter. An error names the task.
using CostModel = std::function<absl::Status(TaskGraph& graph)>;

struct GraphFamily {
  // The graph without its batch: `bytes` is the fixed part of each datum, layer parameters have as
  // `n` the samples for each sample of the batch, and the tasks have no algorithms.
  TaskGraph graph;
  std::vector<std::int64_t> bytes_per_sample;  // by datum
  // The table: batches in ascending order, and for each task its algorithms.
  std::vector<std::int64_t> batches;
  std::vector<std::vector<AlgorithmCosts>> costs = {};
  // Used instead of the table, if it is set. Files have the table alone.
  CostModel cost_model = nullptr;
};

// All functions are thread-safe as long as no two share a family that one of them changes, and as
// far as the cost model is.

// Returns OK when the family gives valid graphs:
// - There is a size per sample, 0 or more, for each datum, and a list of algorithms for each task.
// - Batches are 1 to kMostBatch, in ascending order; without a cost model there is at least one.
// - Each list of a table has one number or as many as there are batches. Seconds are -1 or 0 to
// kMostTaskSeconds. Each task has an algorithm at each batch.
// - The graphs at the least and the largest batch of the table are valid as ValidateGraph says,
// except that a configuration has no place in a family.
// Otherwise InvalidArgument, with the name of the task or the data. O(size of the family).
TIDEPOOL_EXPORT absl::Status ValidateFamily(const GraphFamily& family);

// Returns the graph of a valid family at `batch`, with algorithms in ascending order of workspaces.
// At a batch of the table, times and workspaces are those of the table. Between two batches,
// seconds lie on the straight line through both, and the workspace is the larger one; an algorithm
// is there if both batches have it. InvalidArgument for a batch outside of the table, for sizes
// that exceed the limits of ValidateGraph at that batch, and for errors of the cost model, with the
// name of the data or the task. O(graph + log batches).
TIDEPOOL_EXPORT absl::StatusOr<TaskGraph> GraphAt(const GraphFamily& family, std::int64_t batch);

// Replaces the table by the costs at `batches`, in ascending order, from the cost model or from the
// table before. Errors are those of GraphAt; then the family is unchanged. O(graph x batches).
TIDEPOOL_EXPORT absl::Status TabulateCosts(absl::Span<const std::int64_t> batches,
                                           GraphFamily& family);

// Returns the family of graphs that are alike, at two or more ascending batches: the same names,
// uses and layers; sizes on a straight line. The table has their times and workspaces.
// InvalidArgument names the first difference. O(sizes of the graphs).
TIDEPOOL_EXPORT absl::StatusOr<GraphFamily> MakeFamily(absl::Span<const TaskGraph> graphs);

// Read and write files of families: graph files with the key "batches"
// (docs/formats/task_graph.md). Errors are those of ReadGraph. ReadGraph refuses a family.
using GraphOrFamily = std::variant<TaskGraph, GraphFamily>;
TIDEPOOL_EXPORT absl::StatusOr<GraphOrFamily> ReadGraphOrFamily(const std::filesystem::path& path);
TIDEPOOL_EXPORT absl::StatusOr<GraphOrFamily> ParseGraphOrFamily(std::string_view json,
                                                                 std::string_view name);
// Validates the family, and writes the whole file or none. InvalidArgument without a table.
TIDEPOOL_EXPORT absl::Status WriteFamily(const GraphFamily& family,
                                         const std::filesystem::path& path);
// Returns the text of a valid family with a table.
TIDEPOOL_EXPORT std::string FamilyJson(const GraphFamily& family);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_GRAPH_FAMILY_H_
