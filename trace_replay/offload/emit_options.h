// SPDX-License-Identifier: Apache-2.0
// Options that turn a schedule into a program, and the file with it.
#ifndef TIDEPOOL_TRACE_REPLAY_OFFLOAD_EMIT_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OFFLOAD_EMIT_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "trace_replay/offload/offload_options.h"

namespace tidepool::tool {

struct EmitCommandOptions {
  std::string language;  // empty: none
  bool callbacks = false;
};

// Adds --emit and --callbacks.
void AddEmitOptions(CLI::App& app, EmitCommandOptions& options);

// Refuses --emit without an output file, and options that are nothing without --emit.
absl::Status CheckEmitOptions(const EmitCommandOptions& options, const OffloadCommandOptions& point,
                              const std::string& output);

// Writes the program of a schedule, which is no error, to a file. Pages get fixed addresses.
absl::Status WriteProgram(const EmitCommandOptions& options, ScheduledGraph& scheduled,
                          const std::string& path);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OFFLOAD_EMIT_OPTIONS_H_
