// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/caller.h"

#include <algorithm>
#include <utility>

#include "tidepool/trace/trace_files.h"
#include "trace_replay/argument_errors.h"
#include "trace_replay/command_line.h"
#include "trace_replay/printable.h"
#include "trace_replay/wrong_file.h"

namespace tidepool::tool {
namespace {

// Commands are chains of functions of many files, so the caller is a property of the thread.
thread_local const Caller* current_caller = nullptr;

class CallerScope {
 public:
  explicit CallerScope(const Caller& caller) : before_(std::exchange(current_caller, &caller)) {}
  ~CallerScope() { current_caller = before_; }
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  const Caller* before_;
};

// Returns the trace that the caller of the command has in memory; null without one.
std::shared_ptr<const Trace> TraceInMemory(const std::string& path, const ReadOptions& options) {
  if (current_caller == nullptr) return nullptr;
  const auto found = current_caller->traces.find(path);
  if (found == current_caller->traces.end()) return nullptr;
  const std::shared_ptr<const Trace>& trace = found->second;
  return options.device.value_or(trace->device) == trace->device ? trace : nullptr;
}

}  // namespace

const Caller* CurrentCaller() { return current_caller; }

absl::Status CheckNotStopped() {
  return CallerStop().stop_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

std::stop_token CallerStop() {
  return current_caller == nullptr ? std::stop_token() : current_caller->stop;
}

absl::StatusOr<std::shared_ptr<const Trace>> ReadOrShare(const std::string& path,
                                                         ReadOptions options) {
  if (std::shared_ptr<const Trace> trace = TraceInMemory(path, options)) return trace;
  options.stop = CallerStop();
  absl::StatusOr<Trace> trace = ReadTrace(path, options);
  if (!trace.ok()) return NoTrace(path, trace.status());
  return std::make_shared<const Trace>(*std::move(trace));
}

absl::StatusOr<Answer> RunFor(const Caller& caller, std::vector<std::string> arguments) {
  const CallerScope scope(caller);
  CommandLine line;
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    line.app().parse(std::move(arguments));
  } catch (const CLI::Success&) {
    return absl::InvalidArgumentError(
        "help and version are for the command line: remove the option");
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(Printable(ArgumentError(line.app(), error)));
  }
  absl::StatusOr<Answer> answer = line.Run();
  if (answer.ok()) return answer;
  return absl::Status(answer.status().code(), Printable(std::string(answer.status().message())));
}

}  // namespace tidepool::tool
