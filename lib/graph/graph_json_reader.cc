// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of graphs, with one handler of RapidJSON's events.
#include "lib/graph/graph_json_reader.h"

#include "lib/graph/graph_json_handler.h"
#include "lib/io/json_events.h"
#include "lib/io/json_input.h"

namespace tidepool::graph {

absl::StatusOr<GraphFile> ReadGraphFile(io::ByteSource& source, const std::string& name) {
  io::JsonInput input(source);
  GraphHandler handler(input);
  absl::Status status = io::ReadJsonEvents(input, handler, name, "a task graph");
  if (!status.ok()) return status;
  return handler.Take();
}

}  // namespace tidepool::graph
