// SPDX-License-Identifier: Apache-2.0
// The command `convert`: one trace format to another.
#include <algorithm>
#include <iostream>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/plan.h"
#include "tidepool/trace/trace_files.h"
#include "tidepool/trace/trace_plan.h"
#include "trace_replay/caller.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/planned.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct ConvertOptions {
  std::string input;
  std::string output;
  std::string format;
  std::string policy = "best-fit";
  ReadOptions read;
  bool json = false;
  const CLI::App* app = nullptr;
};

bool HasEnding(const std::string& path, const std::string& ending) {
  return absl::EndsWith(path, ending) || absl::EndsWith(path, ending + ".gz");
}

struct Ending {
  std::string name;
  TraceFormat format;
};
// A name ends in the first of these that matches.
const Ending kEndings[] = {
    {".tide", TraceFormat::kNative},         {".pickle", TraceFormat::kPyTorchSnapshot},
    {".pkl", TraceFormat::kPyTorchSnapshot}, {".json", TraceFormat::kChromeTrace},
    {".rmm.csv", TraceFormat::kRmmCsv},      {".lifetime.csv", TraceFormat::kLifetimeCsv},
    {".csv", TraceFormat::kOperationCsv}};

// Returns the format of a new file by its name. A device or a pipe such as /dev/stdout gets
// operation CSV.
absl::StatusOr<TraceFormat> FormatFromPath(const std::string& path) {
  if (absl::StartsWith(path, "/dev/")) return TraceFormat::kOperationCsv;
  for (const Ending& ending : kEndings) {
    if (HasEnding(path, ending.name)) return ending.format;
  }
  const std::string known = absl::StrJoin(
      kEndings, ", ", [](std::string* text, const Ending& ending) { *text += ending.name; });
  return AboutFile(
      path, absl::InvalidArgumentError(absl::StrCat("no format has this ending, expected ", known,
                                                    ", each with or without .gz, or --to FORMAT")));
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

bool HasEnds(const Trace& trace) {
  return absl::c_any_of(trace.events, [](const TraceEvent& event) {
    return event.kind == TraceEvent::Kind::kMarkEnd;
  });
}

bool HasTimesThatGoBack(const Trace& trace) {
  return !std::is_sorted(trace.events.begin(), trace.events.end(),
                         [](const TraceEvent& a, const TraceEvent& b) { return a.time < b.time; });
}

void AppendRegionLoss(const Trace& trace, std::vector<std::string>& losses) {
  if (trace.region_names.size() > 0) losses.emplace_back("regions");
}

// Appends the private pools, for which no format but a snapshot has a place, and the blocks that
// await their free, which a trace does not tell from live ones.
void AppendSegmentLosses(const Trace& trace, bool keeps_pools, std::vector<std::string>& losses) {
  if (!keeps_pools && absl::c_any_of(trace.segments, [](const TraceSegment& segment) {
        return segment.pool != "default";
      }))
    losses.emplace_back("pools");
  if (absl::c_any_of(trace.segments,
                     [](const TraceSegment& segment) { return segment.pending_bytes > 0; }))
    losses.emplace_back("pending");
}

// Returns the losses of a Chrome trace: it shows them as instants.
std::vector<std::string> ChromeLosses(const Trace& trace) {
  std::vector<std::string> losses;
  if (HasWaits(trace)) losses.emplace_back("waits");
  if (HasEndsWithoutMarks(trace)) losses.emplace_back("ends of marks that did not begin");
  if (HasTimesThatGoBack(trace)) losses.emplace_back("times that go back");
  if (trace.earlier_allocations > 0) {
    losses.emplace_back("which allocations were made before the recording");
  }
  AppendRegionLoss(trace, losses);
  return losses;
}

// Returns the losses of a snapshot. If it gives new addresses to allocations, ids and reservations
// are lost too.
std::vector<std::string> SnapshotLosses(const Trace& trace) {
  std::vector<std::string> losses;
  const bool is_new = trace.original_format != TraceFormat::kPyTorchSnapshot;
  if (HasHints(trace)) losses.emplace_back("hints");
  if (is_new) losses.emplace_back("times below a microsecond");
  if (!HasAddresses(trace)) {
    losses.emplace_back("ids");
    if (!trace.reservations.empty()) losses.emplace_back("reservations");
  }
  if (HasWaits(trace)) losses.emplace_back("waits");
  if (HasThreads(trace)) losses.emplace_back("threads");
  AppendRegionLoss(trace, losses);
  AppendSegmentLosses(trace, HasAddresses(trace), losses);
  return losses;
}

// Returns the alignment that a reader assumes for a format without one.
std::int64_t AssumedAlignment(TraceFormat format) {
  return format == TraceFormat::kLifetimeCsv ? 1 : Trace().default_alignment;
}

// Returns the parts of the trace for which the new format has no place, as JSON names them.
std::vector<std::string> Losses(const Trace& trace, TraceFormat to) {
  std::vector<std::string> losses;
  if (to == TraceFormat::kPyTorchSnapshot) losses = SnapshotLosses(trace);
  if (to != TraceFormat::kNative && trace.default_alignment != AssumedAlignment(to)) {
    losses.emplace_back("the alignment");
  }
  if (to == TraceFormat::kPyTorchSnapshot) return losses;
  if (to != TraceFormat::kNative && !trace.allocator_settings.empty()) {
    losses.emplace_back("the allocator's settings");
  }
  if (to == TraceFormat::kChromeTrace)
    absl::c_move(ChromeLosses(trace), std::back_inserter(losses));
  AppendSegmentLosses(trace, false, losses);
  if (to == TraceFormat::kNative) return losses;
  if (!trace.has_history) losses.emplace_back("history");
  if (to == TraceFormat::kChromeTrace) return losses;
  const bool is_new = trace.original_format != to;
  const bool to_rmm = to == TraceFormat::kRmmCsv;
  const bool to_operations = to == TraceFormat::kOperationCsv;
  if (!to_operations && HasHints(trace)) losses.emplace_back("hints");
  if (to_rmm && is_new) {
    losses.emplace_back("ids that are no addresses, and times below a microsecond");
  }
  if (!to_operations && trace.mark_names.size() > 0) losses.emplace_back("marks");
  if (to_operations && HasEnds(trace)) losses.emplace_back("ends of marks");
  if (!to_rmm && !trace.failures.empty()) losses.emplace_back("failures");
  if (HasWaits(trace)) losses.emplace_back("waits");
  if (!trace.frames.empty()) losses.emplace_back("tags");
  if (!trace.reservations.empty()) losses.emplace_back("reservations");
  if (!to_rmm && HasThreads(trace)) losses.emplace_back("threads");
  AppendRegionLoss(trace, losses);
  if (to == TraceFormat::kLifetimeCsv && is_new) losses.emplace_back("streams and times");
  return losses;
}

// Returns the trace at the offsets of a plan.
absl::StatusOr<Trace> PlacedAsPlanned(const Trace& trace) {
  const absl::StatusOr<PlanProblem> problem = ToPlanProblem(trace, trace.default_alignment);
  if (!problem.ok()) return problem.status();
  const absl::StatusOr<Plan> plan = MakePlan(*problem);
  if (!plan.ok()) return plan.status();
  return AtOffsets(trace, plan->offsets, plan->height);
}

// Returns the trace at the offsets of the smallest pool of a policy.
absl::StatusOr<Trace> Placed(const Trace& trace, const std::string& policy_name) {
  absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(policy_name);
  if (!policy.ok()) return policy.status();
  if (NeedsPlan(policy_name)) return PlacedAsPlanned(trace);
  const std::int64_t alignment = trace.default_alignment;
  const absl::StatusOr<MinimumPoolResult> pool =
      MinimumPool(trace, **policy, {.alignment = alignment, .most_steps = 0});
  if (!pool.ok()) return pool.status();
  const absl::StatusOr<ReplayResult> replay =
      Replay(trace, **policy,
             {.pool_bytes = pool->pool_bytes, .alignment = alignment, .keep_offsets = true});
  if (!replay.ok()) return replay.status();
  return AtOffsets(trace, replay->offsets, replay->high_water_bytes);
}

absl::Status Write(const Trace& trace, TraceFormat format, const ConvertOptions& options) {
  if (format != TraceFormat::kPyTorchSnapshot || HasAddresses(trace))
    return WriteTrace(trace, format, options.output);
  const absl::StatusOr<Trace> placed = Placed(trace, options.policy);
  if (!placed.ok()) return AboutFile(options.input, placed.status());
  return WriteTrace(*placed, format, options.output);
}

// Names a loss in the words of users.
void AppendLoss(std::string* text, const std::string& loss) {
  *text += loss == "tags"           ? "call stacks"
           : loss == "reservations" ? "allocator segments"
           : loss == "failures"     ? "refused requests"
           : loss == "history"      ? "that the peak is not known"
           : loss == "regions"      ? "regions and their pauses"
           : loss == "pools"        ? "private pools"
           : loss == "pending"      ? "blocks that await their free"
                                    : loss;
}

absl::StatusOr<Answer> RunConvert(const ConvertOptions& options) {
  absl::StatusOr<TraceFormat> format =
      options.format.empty() ? FormatFromPath(options.output) : TraceFormatFromName(options.format);
  if (!format.ok()) return format.status();
  if (absl::Status status = CheckJsonOutput(options.json, options.output, "trace"); !status.ok()) {
    return status;
  }
  if (*format != TraceFormat::kPyTorchSnapshot) {
    absl::Status status = Refuse(*options.app, {"--policy"},
                                 "a snapshot alone gets addresses, expected --to pytorch-snapshot");
    if (!status.ok()) return status;
  } else if (absl::Status status = MakePlacementPolicy(options.policy).status(); !status.ok()) {
    return status;
  }
  const auto read = ReadOrShare(options.input, options.read);
  if (!read.ok()) return read.status();
  const Trace& trace = **read;
  if (absl::Status status = Write(trace, *format, options); !status.ok()) return status;
  const std::vector<std::string> losses = Losses(trace, *format);
  if (options.json) {
    PrintJson({{"from", TraceFormatName(trace.format)},
               {"to", TraceFormatName(*format)},
               {"events", trace.events.size()},
               {"left_out", losses}});
    return Answer::kYes;
  }
  std::cerr << TraceFormatName(trace.format) << " -> " << TraceFormatName(*format) << ", "
            << CountText(static_cast<std::int64_t>(trace.events.size())) << " events";
  if (!losses.empty()) {
    std::cerr << "; not written, " << TraceFormatName(*format)
              << " has no place for them: " << absl::StrJoin(losses, ", ", AppendLoss);
  }
  std::cerr << '\n';
  return Answer::kYes;
}

}  // namespace

Command AddConvert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* convert = app.add_subcommand("convert", "Converts a trace to another format");
  options->app = convert;
  convert->group("Traces");
  convert->add_option("INPUT", options->input, "The trace file, of any format")->required();
  convert->add_option("OUTPUT", options->output, "The new file; compressed if the name ends in .gz")
      ->required();
  convert
      ->add_option("--to", options->format,
                   "native, pytorch-snapshot (of pickle protocol 2, which pytorch.org/memory_viz "
                   "opens where that of Python 3.14 stays blank), chrome-trace, operation-csv, "
                   "rmm-csv or lifetime-csv (default: by the new name, *.tide, *.pickle, *.pkl, "
                   "*.json, *.rmm.csv, *.lifetime.csv or *.csv, and operation-csv for /dev/stdout)")
      ->type_name("FORMAT");
  convert
      ->add_option("--policy", options->policy,
                   "Placement policy that gives addresses to allocations without them, for a "
                   "PyTorch snapshot")
      ->type_name("NAME")
      ->capture_default_str();
  AddTraceDeviceOption(*convert, options->read);
  AddJsonOption(*convert, options->json);
  AddExamples(*convert, {"tidepool convert snapshot.pickle step.tide",
                         "tidepool convert step.tide step.json.gz"});
  return {convert, [options] { return RunConvert(*options); }};
}

}  // namespace tidepool::tool
