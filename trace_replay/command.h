// What the subcommands of `tidepool` share. A subcommand is one file and one line in main.cc: it
// adds itself to the command line and says what to run when it was chosen.
#ifndef TIDEPOOL_TRACE_REPLAY_COMMAND_H_
#define TIDEPOOL_TRACE_REPLAY_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tidepool/trace/sizing.h"
#include "tidepool/trace/trace.h"

namespace tidepool::tool {

// The exit statuses of the command line.
enum class Answer : int {
  kYes = 0,
  kBadInput = 1,
  kNo = 2,  // the question has the answer "no": it does not fit
};

struct Command {
  CLI::App* app;
  // Prints its result to standard output, unless it returns an error.
  std::function<absl::StatusOr<Answer>()> run;
};

Command AddInfo(CLI::App& app);
Command AddSize(CLI::App& app);
Command AddReplay(CLI::App& app);
Command AddConvert(CLI::App& app);
Command AddReport(CLI::App& app);
Command AddPlan(CLI::App& app);
Command AddTune(CLI::App& app);
Command AddModel(CLI::App& app);
Command AddSimulate(CLI::App& app);
Command AddRun(CLI::App& app);

// Options that take sizes ("512", "4GiB") in the words of ParseSize.
CLI::Option* AddSizeOption(CLI::App& app, const std::string& name, std::int64_t& bytes,
                           const std::string& description);

// `--align`: 0 until it is given. A power of two up to 1 GiB.
CLI::Option* AddAlignOption(CLI::App& app, std::int64_t& alignment);

// The number of the device whose memory is asked about: `--trace-device`, and `--device` too unless
// the subcommand has an option of that name.
enum class DeviceAlias : std::uint8_t { kTaken, kFree };
CLI::Option* AddTraceDeviceOption(CLI::App& app, ReadOptions& options,
                                  DeviceAlias alias = DeviceAlias::kFree);

struct MeasuredTrace {
  Trace trace;
  std::int64_t alignment;  // as asked for, or the format's own
  TraceLoad load;
  std::optional<ReservedLoad> reserved;  // by whom the trace was recorded
};
// Reads and measures a trace. Errors name the file.
absl::StatusOr<MeasuredTrace> ReadMeasured(const std::string& path, std::int64_t alignment,
                                           const ReadOptions& options);
// What is wrong with a trace as a whole: `status` with the file in front.
absl::Status AboutFile(const std::string& path, const absl::Status& status);

// The beginning of every JSON answer about a trace.
nlohmann::ordered_json TraceJson(const MeasuredTrace& measured);
// How many times what is live at the peak `bytes` are; 1 where nothing is ever live.
double Overhead(std::int64_t bytes, const TraceLoad& load);

// What the allocator that was recorded had reserved; nulls when the trace does not say.
nlohmann::ordered_json ReservedJson(const MeasuredTrace& measured);

// And of every table.
void PrintTraceLine(const std::string& path, const MeasuredTrace& measured);

void PrintJson(const nlohmann::ordered_json& json);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_COMMAND_H_
