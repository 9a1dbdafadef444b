// SPDX-License-Identifier: Apache-2.0
// The options of `simulate` that take several values, its questions, and its graphs.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/training/graph.h"
#include "trace_replay/offload/gpu_option.h"
#include "trace_replay/offload/sweep.h"

namespace tidepool::tool {

// The iteration to simulate: a file, or a network or a graph at some batches.
struct GraphSource {
  std::string graph;  // a file; with batches, a graph at any batch or the name of a network
  GpuOption gpu;
};

void AddSweepOptions(CLI::App& app, SweepOptions& sweep);
void AddGraphOptions(CLI::App& app, GraphSource& source, SweepOptions& sweep);

// Refuses options that contradict each other. `app` has parsed its arguments.
absl::Status CheckSweepOptions(const CLI::App& app, const SweepOptions& sweep,
                               const OffloadCommandOptions& options);

// Reads the file, or makes the graph of the network, or its family. A batch of 0 stands for a graph
// of one batch.
absl::StatusOr<GraphOrFamily> GraphOf(const GraphSource& source, std::int64_t batch,
                                      bool as_family);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_SWEEP_OPTIONS_H_
