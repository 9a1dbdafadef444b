// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of a task graph (docs/formats/task_graph.md).
#ifndef TIDEPOOL_LIB_TRAINING_GRAPH_GRAPH_JSON_READER_H_
#define TIDEPOOL_LIB_TRAINING_GRAPH_GRAPH_JSON_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/text_numbers.h"
#include "tidepool/training/graph.h"

namespace tidepool::graph {

// The contents of a file. The uses of tasks are not indices of data yet, but numbers of names.
struct GraphFile {
  // Lists of times or workspaces of an algorithm: one for each batch of a family. An algorithm
  // without a list has one number for all batches.
  struct CostLists {
    std::size_t task = 0;
    std::size_t algorithm = 0;
    bool has_seconds = false;
    bool has_workspaces = false;
    std::vector<double> seconds = {};
    std::vector<std::int64_t> workspaces = {};
  };

  TaskGraph graph;
  io::TextNumbers names;
  std::vector<std::int64_t> data_lines;  // line where each datum begins
  std::vector<std::int64_t> task_lines;
  // A family has batches.
  bool has_batches = false;
  std::vector<std::int64_t> batches;
  std::vector<std::int64_t> bytes_per_sample;  // by datum
  std::vector<CostLists> cost_lists;
  std::int64_t family_line = 0;  // line of the first size per sample or list; 0 without one
};

// Reads the whole source, gzip too. Errors begin with NAME:LINE.
absl::StatusOr<GraphFile> ReadGraphFile(std::unique_ptr<io::ByteSource> source,
                                        const std::string& name);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_TRAINING_GRAPH_GRAPH_JSON_READER_H_
