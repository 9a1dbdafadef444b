// SPDX-License-Identifier: Apache-2.0
// The command line with all its commands.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMAND_LINE_H_
#define TIDEPOOL_TRACE_REPLAY_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App& app() { return app_; }
  // Runs the command that `app` has parsed.
  absl::StatusOr<Answer> Run() const;

 private:
  CLI::App app_;
  std::vector<Command> commands_;
};

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMAND_LINE_H_
