// SPDX-License-Identifier: Apache-2.0
// The front of time against memory, as an answer of `schedule`.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_FRONT_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_FRONT_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/schedule/graph_family.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

struct FrontCommandOptions {
  bool is_asked = false;
  int memories = 16;    // that are tried
  std::string drawing;  // a file; empty: none is written
};

// Adds --front, --points and --svg.
void AddFrontOptions(CLI::App& app, FrontCommandOptions& options);

// Refuses options that a front does not take, and those that are nothing without --front. `app` has
// parsed its arguments.
absl::Status CheckFrontOptions(const CLI::App& app, const FrontCommandOptions& options,
                               const OffloadCommandOptions& point);

// Prints the front of a graph, or of a family at a batch, and writes its drawing. The fastest
// schedule goes to the file `output`, unless that is empty.
absl::StatusOr<Answer> PrintFront(const CLI::App& app, const FrontCommandOptions& options,
                                  const OffloadCommandOptions& point, const GraphOrFamily& graphs,
                                  std::int64_t batch, const std::string& output);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_FRONT_OPTIONS_H_
