// SPDX-License-Identifier: Apache-2.0
// The command `report`: a trace as pictures. The ending of the output's name chooses a page to
// explore, a drawing for documents, or collapsed stacks for flame graph tools.
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/composition.h"
#include "tidepool/trace/frames.h"
#include "tidepool/trace/output_file.h"
#include "trace_replay/caller.h"
#include "trace_replay/command.h"
#include "trace_replay/options.h"
#include "trace_replay/report/drawing.h"
#include "trace_replay/report/figures.h"
#include "trace_replay/report/page.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct ReportOptions {
  std::string trace;
  std::vector<std::string> policies;
  std::int64_t budget = -1;  // -1: no budget
  std::int64_t alignment = 0;
  std::string output = "report.html";
  std::string before;  // the trace to compare with, or empty
  ReadOptions read;
  bool json = false;
};

enum class Kind { kPage, kDrawing, kStacks };

absl::StatusOr<Kind> KindOf(const std::string& output) {
  if (absl::EndsWith(output, ".html")) return Kind::kPage;
  if (absl::EndsWith(output, ".svg")) return Kind::kDrawing;
  if (absl::EndsWith(output, ".folded")) return Kind::kStacks;
  return absl::InvalidArgumentError(absl::StrCat(
      "-o: ", absl::CHexEscape(output), ", expected a name that ends in .html, .svg or .folded"));
}

absl::Status CheckOptions(const ReportOptions& options) {
  std::error_code error;
  if (std::filesystem::equivalent(options.trace, options.output, error)) {
    return absl::InvalidArgumentError(absl::StrCat("-o: ", absl::CHexEscape(options.output),
                                                   " is the trace itself, expected another file"));
  }
  return PolicyNames(options.policies).status();
}

// Returns the name of a file without its folder.
std::string Name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

absl::Status WriteStacks(const ReportFigures& figures, std::ostream& out) {
  const Trace& trace = *figures.measured.trace;
  if (trace.allocations.empty()) return absl::OkStatus();
  const auto live = LiveAfter(trace, figures.measured.load.peak_event);
  if (!live.ok()) return live.status();
  out << CollapsedStacks(trace, *live, figures.measured.alignment);
  return absl::OkStatus();
}

// Returns the section of a page that compares the trace with `--before`; empty without it.
absl::StatusOr<std::string> Comparison(const ReportOptions& options,
                                       const MeasuredTrace& measured) {
  if (options.before.empty()) return std::string();
  const auto before = ReadMeasured(options.before, options.alignment, options.read);
  if (!before.ok()) return before.status();
  const absl::StatusOr<TraceDiff> diff = Compare(*before, measured, {});
  if (!diff.ok()) return diff.status();
  return ComparisonMarkup(*diff, Name(options.before));
}

absl::Status Write(Kind kind, const ReportOptions& options, const ReportFigures& figures,
                   const std::string& comparison) {
  return WriteFile(options.output, [&](std::ostream& out) {
    switch (kind) {
      case Kind::kPage:
        return WritePage(figures, Name(options.trace), comparison, out);
      case Kind::kDrawing:
        return WriteDrawing(figures, Name(options.trace), out);
      case Kind::kStacks:
        return WriteStacks(figures, out);
    }
    return absl::OkStatus();
  });
}

void PrintAnswer(const ReportOptions& options, const ReportFigures& figures) {
  if (options.json) {
    nlohmann::ordered_json json = FiguresJson(figures);
    if (!figures.measured.trace->has_history)
      json["policies"] = json["allocators"] = nlohmann::ordered_json::array();
    json["output"] = options.output;
    PrintJson(json);
    return;
  }
  PrintTraceLine(options.trace, figures.measured);
  std::cout << "  " << absl::StrJoin(Headline(figures), "\n  ") << "\n\n  "
            << absl::CHexEscape(options.output) << '\n';
}

// Replaces the trace by one without frames of PyTorch's machinery. Stacks of refused requests have
// other tags then.
absl::Status RemoveMachinery(MeasuredTrace& measured) {
  auto trace = std::make_shared<Trace>(*measured.trace);
  RemoveMachineryFrames(*trace);
  absl::StatusOr<TraceDemand> demand = MeasureDemand(*trace, measured.alignment);
  if (!demand.ok()) return demand.status();
  measured.demand = *std::move(demand);
  measured.trace = std::move(trace);
  return absl::OkStatus();
}

absl::StatusOr<Answer> RunReport(const ReportOptions& options) {
  const absl::StatusOr<Kind> kind = KindOf(options.output);
  if (!kind.ok()) return kind.status();
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (!options.before.empty() && *kind != Kind::kPage) {
    return absl::InvalidArgumentError("--before: only a page has a comparison, expected -o *.html");
  }
  absl::StatusOr<MeasuredTrace> measured =
      ReadMeasured(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  const absl::StatusOr<std::string> comparison = Comparison(options, *measured);
  if (!comparison.ok()) return comparison.status();
  if (absl::Status status = RemoveMachinery(*measured); !status.ok()) {
    return AboutFile(options.trace, status);
  }
  FiguresRequest request;
  request.policies = options.policies;
  request.stop = CallerStop();
  if (options.budget >= 0) request.budget_bytes = options.budget;
  if (*kind != Kind::kPage) request.layouts_with_offsets = *kind == Kind::kDrawing ? 1 : 0;
  const absl::StatusOr<ReportFigures> figures = ComputeFigures(*std::move(measured), request);
  if (!figures.ok()) return AboutFile(options.trace, figures.status());
  if (absl::Status status = Write(*kind, options, *figures, *comparison); !status.ok())
    return status;
  PrintAnswer(options, *figures);
  return Answer::kYes;
}

}  // namespace

Command AddReport(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* report = app.add_subcommand(
      "report", "Draws a trace: a page to explore, a drawing, or stacks for flame graphs");
  report->group("Traces");
  AddTraceArgument(*report, options->trace);
  AddPoliciesOption(*report, options->policies);
  AddSizeOption(*report, "--pool", options->budget,
                "The budget: a line in the charts, and a sentence on whether the trace fits");
  AddAlignOption(*report, options->alignment);
  AddTraceDeviceOption(*report, options->read);
  report
      ->add_option("-o,--output", options->output,
                   "The file to write: *.html (a page), *.svg (a drawing) or *.folded (collapsed "
                   "stacks of the peak)")
      ->type_name("FILE")
      ->capture_default_str();
  report
      ->add_option("--before", options->before,
                   "Compare with this trace: a page gets the tables of 'tidepool diff'")
      ->type_name("TRACE");
  AddJsonOption(*report, options->json);
  AddExamples(*report, {"tidepool report snapshot.pickle --pool 80GiB",
                        "tidepool report step.tide --policy best-fit -o step.svg"});
  return {report, [options] { return RunReport(*options); }};
}

}  // namespace tidepool::tool
