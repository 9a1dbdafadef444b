// SPDX-License-Identifier: Apache-2.0
// The contract of the commands of `tidepool`, and the parts that several of them print. A command
// is one file and one line in commands/commands.cc: it adds itself to the command line, and returns
// the function to run when it was chosen.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMAND_H_
#define TIDEPOOL_TRACE_REPLAY_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tidepool/trace/demand.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"

namespace tidepool::tool {

// The exit statuses of the command line.
enum class Answer : int {
  kYes = 0,
  kBadInput = 1,
  kNo = 2,  // the answer to the question is "no": it does not fit
};

struct Command {
  CLI::App* app;
  // Prints the answer to standard output. Prints nothing there if it returns an error.
  std::function<absl::StatusOr<Answer>()> run;
};

Command AddInfo(CLI::App& app);
Command AddDiff(CLI::App& app);
Command AddSize(CLI::App& app);
Command AddReplay(CLI::App& app);
Command AddConvert(CLI::App& app);
Command AddReport(CLI::App& app);
Command AddPlan(CLI::App& app);
Command AddTune(CLI::App& app);
Command AddDryRun(CLI::App& app);
Command AddModel(CLI::App& app);
Command AddSchedule(CLI::App& app);
Command AddFront(CLI::App& app);
Command AddChain(CLI::App& app);
Command AddEmit(CLI::App& app);
Command AddSimulate(CLI::App& app);
Command AddRun(CLI::App& app);
Command AddProfile(CLI::App& app);
Command AddWorkspace(CLI::App& app);
// Adds every command of the program: the reader in the browser has two.
std::vector<Command> AddCommands(CLI::App& app);

struct MeasuredTrace {
  std::shared_ptr<const Trace> trace;  // never null; a caller's trace is shared, not copied
  std::int64_t alignment = 1;          // the requested one, or the default of the trace's format
  TraceLoad load;                      // of the recorded allocations
  TraceDemand demand;                  // with the requests that were refused
  std::size_t recorded_events = 0;
  std::size_t recorded_allocations = 0;
  std::optional<ReservedLoad> reserved;  // by the recorded allocator; empty if it was not recorded
  bool is_peak_known = true;             // whether the file has a history
  // Whether live memory never rose above that at the history's beginning, so that an earlier peak
  // may have been higher.
  bool began_at_peak = false;
  // Whether the file holds more live than reserved bytes, which contradict each other: then the
  // reserved bytes are known only at the end.
  bool contradicts = false;
};
// Reads and measures a trace. An alignment of 0 stands for the trace's own. Errors name the file.
absl::StatusOr<MeasuredTrace> ReadMeasured(const std::string& path, std::int64_t alignment,
                                           const ReadOptions& options);
// Reads and measures a trace, and replaces its `trace` by WithRefusedRequests: each refused request
// is an allocation that is freed at once.
absl::StatusOr<MeasuredTrace> ReadRequests(const std::string& path, std::int64_t alignment,
                                           const ReadOptions& options);
absl::StatusOr<MeasuredTrace> ToRequests(MeasuredTrace measured);
// Returns the recorded event for an event of such a trace.
std::int64_t RecordedEvent(const MeasuredTrace& requests, std::int64_t event);
// Returns the values of the recorded allocations, for values of all allocations of such a trace.
std::vector<std::int64_t> OfRecorded(const MeasuredTrace& requests,
                                     std::vector<std::int64_t> values);

// Returns `status`, an error about a file as a whole, with "FILE: " in front.
absl::Status AboutFile(const std::string& path, const absl::Status& status);

// Returns the object `trace` of every JSON answer about a trace.
nlohmann::ordered_json TraceJson(const MeasuredTrace& measured);
// Returns `bytes` over the peak of live bytes; 1 for a trace in which nothing is ever live.
double Overhead(std::int64_t bytes, const TraceLoad& load);

// Returns the bytes that the recorded allocator had reserved; nulls if they were not recorded.
nlohmann::ordered_json ReservedJson(const MeasuredTrace& measured);

// Said of a snapshot without history wherever its peak would be.
inline constexpr std::string_view kNoHistory =
    R"(no history: only what was live when it was taken; the peak is not known)";
// Returns sentences about a recording that is not a whole history: no history, or memory from
// before it began.
std::vector<std::string> RecordingNotes(const MeasuredTrace& measured);

// Returns the number of the refused request with the most live and requested bytes; no value
// without one.
std::optional<std::size_t> WorstRefusal(const TraceDemand& demand);
// Returns "4.9 GiB refused at models.py:181 update_nodes with 78.3 GiB live", of that request;
// empty without one.
std::string WorstRefusalText(const MeasuredTrace& measured);
// Returns " at models.py:181 update_nodes" for the name of a frame; empty for "(no stack)".
std::string AtFrameText(const std::string& frame);

// Prints the file, its format, its counts, its peak and its needs: the head of every table about a
// trace.
void PrintTraceLine(const std::string& path, const MeasuredTrace& measured);

// The first request that a replay refused, in a trace of ReadRequests.
struct FirstRefused {
  std::int64_t event = 0;  // of the recording
  std::int64_t line = 0;   // of the file; 0 for files without lines
  std::string stream;
  std::string frame = {};           // "(no stack)" without one
  std::string region = {};          // to be resumed; empty for a request
  bool was_refused_before = false;  // the recorded allocator had refused it, too
};
// `event` is that of the trace with requests.
FirstRefused FirstRefusedAt(const MeasuredTrace& requests, std::int64_t event);
// Returns the object `first_refused` of answers, without sizes.
nlohmann::ordered_json FirstRefusedJson(const FirstRefused& first);
// Returns rows of a table.
std::vector<std::vector<std::string>> FirstRefusedRows(const FirstRefused& first);

// Names the contents of a trace without history: "the live memory", or "the refused request" of a
// log that has nothing else.
std::string HeldText(const MeasuredTrace& measured);
// Returns "all" or "all but 3", for a replay of a trace.
std::string ServedText(const MeasuredTrace& measured, std::int64_t refused);

// Prints one line of ASCII, or gives it to the program that runs the command.
void PrintJson(const nlohmann::ordered_json& json);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMAND_H_
