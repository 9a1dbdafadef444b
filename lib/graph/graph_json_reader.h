// One pass over the JSON of a task graph (docs/task_graph.md).
#ifndef TIDEPOOL_LIB_GRAPH_GRAPH_JSON_READER_H_
#define TIDEPOOL_LIB_GRAPH_GRAPH_JSON_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/trace/byte_source.h"
#include "lib/trace/text_numbers.h"
#include "tidepool/graph.h"

namespace tidepool::task_graph {

// A graph as the file says it: what tasks read, write and update are not indexes of data yet, but
// numbers of names.
struct GraphFile {
  TaskGraph graph;
  internal::TextNumbers names;
  std::vector<std::int64_t> data_lines;  // in which each begins
  std::vector<std::int64_t> task_lines;
};

// Errors are about the file: they begin with NAME:LINE.
absl::StatusOr<GraphFile> ReadGraphFile(internal::ByteSource& source, const std::string& name);

}  // namespace tidepool::task_graph

#endif  // TIDEPOOL_LIB_GRAPH_GRAPH_JSON_READER_H_
