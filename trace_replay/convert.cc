// tidepool convert: one trace format to another.
#include <algorithm>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/command.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct ConvertOptions {
  std::string input;
  std::string output;
  std::string format;
  bool json = false;
};

// The format that a file name asks for: "x.tide", "x.json", "x.rmm.csv" and "x.lifetime.csv" say
// so, any other is an operation CSV.
TraceFormat FormatFromPath(const std::string& path) {
  if (absl::EndsWith(path, ".tide") || absl::EndsWith(path, ".tide.gz")) {
    return TraceFormat::kNative;
  }
  if (absl::EndsWith(path, ".json") || absl::EndsWith(path, ".json.gz")) {
    return TraceFormat::kChromeTrace;
  }
  if (absl::StrContains(path, ".rmm.")) return TraceFormat::kRmmCsv;
  if (absl::StrContains(path, ".lifetime.")) return TraceFormat::kLifetimeCsv;
  return TraceFormat::kOperationCsv;
}

bool HasHints(const Trace& trace) {
  return std::any_of(trace.allocations.begin(), trace.allocations.end(),
                     [](const TraceAllocation& a) { return a.hint != Hint::kResident; });
}

bool HasWaits(const Trace& trace) {
  return std::any_of(trace.events.begin(), trace.events.end(),
                     [](const TraceEvent& event) { return event.kind == TraceEvent::Kind::kWait; });
}

bool HasThreads(const Trace& trace) {
  return trace.thread_names.size() > 1 ||
         (trace.thread_names.size() == 1 && !trace.thread_names[0].empty());
}

bool HasEndsWithoutMarks(const Trace& trace) {
  std::vector<std::int64_t> open(trace.mark_names.size());
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kMark) ++open[event.index];
    if (event.kind == TraceEvent::Kind::kMarkEnd && --open[event.index] < 0) return true;
  }
  return false;
}

bool HasTimesThatGoBack(const Trace& trace) {
  return !std::is_sorted(trace.events.begin(), trace.events.end(),
                         [](const TraceEvent& a, const TraceEvent& b) { return a.time < b.time; });
}

// Nearly all can be said; what is not, shows as an instant.
std::vector<std::string> ChromeLosses(const Trace& trace) {
  std::vector<std::string> losses;
  if (HasWaits(trace)) losses.emplace_back("waits");
  if (HasEndsWithoutMarks(trace)) losses.emplace_back("ends of marks that did not begin");
  if (HasTimesThatGoBack(trace)) losses.emplace_back("times that go back");
  return losses;
}

// What the new file cannot say, as a note to the user.
std::vector<std::string> Losses(const Trace& trace, TraceFormat to) {
  std::vector<std::string> losses;
  if (to == TraceFormat::kNative) return losses;
  if (to == TraceFormat::kChromeTrace) return ChromeLosses(trace);
  const bool is_new = trace.original_format != to;
  const bool to_rmm = to == TraceFormat::kRmmCsv;
  const bool to_operations = to == TraceFormat::kOperationCsv;
  if (!to_operations && HasHints(trace)) losses.emplace_back("hints");
  if (to_rmm && is_new) {
    losses.emplace_back("ids that are no addresses, and times below a microsecond");
  }
  if (!to_operations && trace.mark_names.size() > 0) losses.emplace_back("marks");
  if (!to_rmm && !trace.failures.empty()) losses.emplace_back("failures");
  if (HasWaits(trace)) losses.emplace_back("waits");
  if (!trace.frames.empty()) losses.emplace_back("tags");
  if (!trace.reservations.empty()) losses.emplace_back("reservations");
  if (!to_rmm && HasThreads(trace)) losses.emplace_back("threads");
  if (to == TraceFormat::kLifetimeCsv && is_new) losses.emplace_back("streams and times");
  return losses;
}

absl::StatusOr<Answer> RunConvert(const ConvertOptions& options) {
  absl::StatusOr<TraceFormat> format =
      options.format.empty() ? FormatFromPath(options.output) : TraceFormatFromName(options.format);
  if (!format.ok()) return format.status();
  if (options.json && options.output == "/dev/stdout") {
    return absl::InvalidArgumentError(
        "--json: the trace goes to standard output, expected another file for it");
  }
  absl::StatusOr<Trace> trace = ReadTrace(options.input);
  if (!trace.ok()) return trace.status();
  if (absl::Status status = WriteTrace(*trace, *format, options.output); !status.ok())
    return status;
  const std::vector<std::string> losses = Losses(*trace, *format);
  if (options.json) {
    PrintJson({{"from", TraceFormatName(trace->format)},
               {"to", TraceFormatName(*format)},
               {"events", trace->events.size()},
               {"left_out", losses}});
    return Answer::kYes;
  }
  std::cerr << TraceFormatName(trace->format) << " -> " << TraceFormatName(*format) << ", "
            << CountText(static_cast<std::int64_t>(trace->events.size())) << " events";
  for (std::size_t i = 0; i < losses.size(); ++i)
    std::cerr << (i == 0 ? "; left out: " : ", ") << losses[i];
  std::cerr << '\n';
  return Answer::kYes;
}

}  // namespace

Command AddConvert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* convert = app.add_subcommand("convert", "One trace format to another");
  convert->add_option("input", options->input, "The trace")->required();
  convert->add_option("output", options->output, "The new file; compressed when it ends in .gz")
      ->required();
  convert->add_option(
      "--to", options->format,
      "native, chrome-trace, operation-csv, rmm-csv or lifetime-csv (default: as the new name "
      "says, *.tide, *.json, *.rmm.csv or *.lifetime.csv, else operation-csv)");
  convert->add_flag("--json", options->json, "One JSON object about what was done");
  return {convert, [options] { return RunConvert(*options); }};
}

}  // namespace tidepool::tool
