// SPDX-License-Identifier: Apache-2.0
// One pass over the JSON of a task graph (docs/formats/task_graph.md).
#ifndef TIDEPOOL_LIB_GRAPH_GRAPH_JSON_READER_H_
#define TIDEPOOL_LIB_GRAPH_GRAPH_JSON_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/io/byte_source.h"
#include "lib/io/text_numbers.h"
#include "tidepool/schedule/graph.h"

namespace tidepool::graph {

// The contents of a file. The uses of tasks are not indices of data yet, but numbers of names.
struct GraphFile {
  TaskGraph graph;
  io::TextNumbers names;
  std::vector<std::int64_t> data_lines;  // line where each datum begins
  std::vector<std::int64_t> task_lines;
};

// Reads the whole source. Errors begin with NAME:LINE.
absl::StatusOr<GraphFile> ReadGraphFile(io::ByteSource& source, const std::string& name);

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_GRAPH_GRAPH_JSON_READER_H_
