// SPDX-License-Identifier: Apache-2.0
// Graph files of commands: a graph of one batch, or a family, which needs a batch.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_GRAPH_FILE_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_GRAPH_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::tool {

// Reads a graph or a family.
absl::StatusOr<GraphOrFamily> ReadGraphFile(const std::string& path);

// Reads a graph or a family. A graph of one batch takes no batch: 0.
absl::StatusOr<GraphOrFamily> ReadGraphFor(const std::string& path, std::int64_t batch);

// Returns "a graph of batch 32", or "a graph of an unknown batch".
std::string GraphOfBatchText(const TaskGraph& graph);
// Returns "batch 32, ", or nothing for a batch that is not known, 0.
std::string KnownBatchText(std::int64_t batch);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_GRAPH_FILE_H_
