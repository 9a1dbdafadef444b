// SPDX-License-Identifier: Apache-2.0
// Commands that another program runs in its own process: the Python package.
#ifndef TIDEPOOL_TRACE_REPLAY_CALLER_H_
#define TIDEPOOL_TRACE_REPLAY_CALLER_H_

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/trace/trace.h"
#include "trace_replay/command.h"

namespace tidepool::tool {

// A program that runs a command, in the place of a shell with its terminal.
struct Caller {
  // Takes the progress: a text, and the part of the work that is done, 0 to 1, or -1 if unknown.
  // Called by the thread of the command; null for no progress.
  std::function<void(const std::string& text, double part)> show_progress = nullptr;
  std::stop_token stop = {};  // as Ctrl-C
  // Traces in memory, by the paths that arguments name. A command reads other files.
  std::map<std::string, std::shared_ptr<const Trace>> traces = {};
  std::string* json = nullptr;  // takes the line that --json prints
};

// Returns the caller of the command that this thread runs; null in the program `tidepool`.
const Caller* CurrentCaller();

// Returns Cancelled once the caller of this thread's command has requested a stop.
absl::Status CheckNotStopped();

// Returns the stop of the caller of this thread's command. Without a caller no stop is possible:
// Ctrl-C ends the program.
std::stop_token CallerStop();

// Reads a trace, or shares the one that the caller of this thread's command has in memory.
// Cancelled once the caller has requested a stop.
absl::StatusOr<std::shared_ptr<const Trace>> ReadOrShare(const std::string& path,
                                                         ReadOptions options);

// Runs the command with these arguments, such as {"size", "step.tide", "--json"}, in this thread.
// The error is the line that the program `tidepool` would print. Thread-safe.
absl::StatusOr<Answer> RunFor(const Caller& caller, std::vector<std::string> arguments);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_CALLER_H_
