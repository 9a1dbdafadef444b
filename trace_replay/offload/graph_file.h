// SPDX-License-Identifier: Apache-2.0
// Graph files of commands: a graph of one batch, or a family at a given batch.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_GRAPH_FILE_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_GRAPH_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/schedule/graph.h"

namespace tidepool::tool {

// Returns the graph of a file. A family needs a batch, and a graph of one batch takes none: 0.
absl::StatusOr<TaskGraph> ReadGraphAt(const std::string& path, std::int64_t batch);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_GRAPH_FILE_H_
