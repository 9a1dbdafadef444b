// SPDX-License-Identifier: Apache-2.0
// The command `info`: the contents of a trace in figures.
#include <algorithm>
#include <iostream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/frames.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/category_rules.h"
#include "trace_replay/commands/device_answer.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct InfoOptions {
  std::string trace;
  std::int64_t alignment = 0;
  ReadOptions read;
  std::vector<std::string> categories;  // NAME=REGEX
  bool json = false;
};

constexpr std::size_t kListedUnfreed = 10;

// Returns the allocations that are never freed, the largest first.
std::vector<std::uint32_t> Unfreed(const Trace& trace) {
  std::vector<bool> freed(trace.allocations.size());
  for (const TraceEvent& event : trace.events) {
    if (event.kind == TraceEvent::Kind::kFree) freed[event.index] = true;
  }
  std::vector<std::uint32_t> unfreed;
  for (std::uint32_t i = 0; i < freed.size(); ++i) {
    if (!freed[i]) unfreed.push_back(i);
  }
  std::stable_sort(unfreed.begin(), unfreed.end(), [&](std::uint32_t a, std::uint32_t b) {
    return trace.allocations[a].bytes > trace.allocations[b].bytes;
  });
  return unfreed;
}

std::int64_t Offloadable(const Trace& trace) {
  return std::count_if(trace.allocations.begin(), trace.allocations.end(),
                       [](const TraceAllocation& a) { return a.hint == Hint::kOffloadable; });
}

std::int64_t Count(const Trace& trace, TraceEvent::Kind kind) {
  return std::count_if(trace.events.begin(), trace.events.end(),
                       [&](const TraceEvent& event) { return event.kind == kind; });
}

// Counts the distinct stacks that allocated memory.
std::int64_t Stacks(const Trace& trace) {
  std::vector<bool> are_used(trace.frames.size() + 1);
  for (const TraceAllocation& allocation : trace.allocations) are_used[allocation.tag] = true;
  return std::count(are_used.begin() + 1, are_used.end(), true);
}

std::string Id(const Trace& trace, std::uint32_t allocation) {
  return std::string(trace.allocation_ids[allocation]);
}

void PrintInfoJson(const MeasuredTrace& measured, const std::vector<DeviceAnswer>& answers) {
  const Trace& trace = measured.trace;
  const TraceLoad& load = measured.load;
  nlohmann::ordered_json json = {{"trace", TraceJson(measured)}};
  json["history"] = trace.has_history;
  json["frees"] = Count(trace, TraceEvent::Kind::kFree);
  json["failures"] = Count(trace, TraceEvent::Kind::kFailure);
  json["waits"] = Count(trace, TraceEvent::Kind::kWait);
  json["marks"] = Count(trace, TraceEvent::Kind::kMark);
  json["streams"] = trace.stream_names.size();
  json["threads"] = trace.thread_names.size();
  json["stacks"] = Stacks(trace);
  json["device"] = trace.device;
  json["devices"] = trace.devices;
  json["offloadable"] = Offloadable(trace);
  json["peak_event"] = load.peak_event;
  json["peak_live_count"] = load.peak_live_count;
  json["unfreed_bytes"] = load.unfreed_bytes;
  json.update(ReservedJson(measured));
  json["unmatched_frees"] = trace.unmatched_frees;
  json["skipped_rows"] = trace.skipped_rows;
  json["ended_early"] = trace.ended_early;
  json["largest_unfreed"] = nlohmann::ordered_json::array();
  const std::vector<std::uint32_t> unfreed = Unfreed(trace);
  for (std::size_t i = 0; i < std::min(kListedUnfreed, unfreed.size()); ++i) {
    json["largest_unfreed"].push_back(
        {{"id", Id(trace, unfreed[i])}, {"bytes", trace.allocations[unfreed[i]].bytes}});
  }
  json["per_device"] = nlohmann::ordered_json::array();
  for (const DeviceAnswer& answer : answers) json["per_device"].push_back(DeviceJson(answer));
  PrintJson(json);
}

std::string DevicesText(const Trace& trace) {
  if (trace.devices.empty()) return "unknown";
  std::string text = absl::StrCat(trace.device);
  if (trace.devices.size() > 1) absl::StrAppend(&text, " of ", absl::StrJoin(trace.devices, ", "));
  return text;
}

void AddReservedRows(const MeasuredTrace& measured, std::vector<std::vector<std::string>>& rows) {
  if (!measured.reserved.has_value()) return;
  const ReservedLoad& reserved = *measured.reserved;
  const bool has_history = measured.trace.has_history;
  rows.push_back({absl::StrCat(has_history ? "peak " : "", "reserved by the recorded allocator"),
                  SizeText(reserved.peak_reserved_bytes)});
  rows.push_back({has_history ? "  / peak live" : "  / live",
                  RatioText(Overhead(reserved.peak_reserved_bytes, measured.load))});
  if (!has_history) return;
  rows.push_back({"  at the end", SizeText(reserved.reserved_bytes)});
}

// "1 (4.9 GiB refused at event 332)".
std::string FailuresText(const Trace& trace) {
  std::string text = CountText(static_cast<std::int64_t>(trace.failures.size()));
  const auto first = std::find_if(
      trace.events.begin(), trace.events.end(),
      [](const TraceEvent& event) { return event.kind == TraceEvent::Kind::kFailure; });
  if (first == trace.events.end()) return text;
  absl::StrAppend(&text, " (", trace.failures.size() > 1 ? "the first: " : "",
                  SizeText(trace.failures[first->index].bytes), " refused at event ",
                  CountText(first - trace.events.begin()), ")");
  return text;
}

void AddCountIfAny(const std::string& name, std::int64_t count,
                   std::vector<std::vector<std::string>>& rows) {
  if (count > 0) rows.push_back({name, CountText(count)});
}

std::vector<std::vector<std::string>> CountRows(const Trace& trace) {
  std::vector<std::vector<std::string>> rows = {
      {"frees", CountText(Count(trace, TraceEvent::Kind::kFree))},
      {"out of memory", FailuresText(trace)}};
  AddCountIfAny("waits between streams", Count(trace, TraceEvent::Kind::kWait), rows);
  rows.push_back({"marks", CountText(Count(trace, TraceEvent::Kind::kMark))});
  rows.push_back({"streams", CountText(static_cast<std::int64_t>(trace.stream_names.size()))});
  rows.push_back({"threads", CountText(static_cast<std::int64_t>(trace.thread_names.size()))});
  rows.push_back({"stacks", CountText(Stacks(trace))});
  rows.push_back({"device", DevicesText(trace)});
  AddCountIfAny("offloadable allocations", Offloadable(trace), rows);
  return rows;
}

void PrintLargestUnfreed(const Trace& trace) {
  const std::vector<std::uint32_t> unfreed = Unfreed(trace);
  if (unfreed.empty()) return;
  const FrameNames names(trace);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(kListedUnfreed, unfreed.size()); ++i) {
    rows.push_back(
        {absl::CHexEscape(Id(trace, unfreed[i])), SizeText(trace.allocations[unfreed[i]].bytes)});
    if (!trace.frames.empty())
      rows.back().push_back(absl::CHexEscape(names.NameOfAllocation(unfreed[i])));
  }
  std::cout << "\n  largest allocations that were never freed\n" << TableText(rows);
}

void PrintInfoTable(const InfoOptions& options, const MeasuredTrace& measured,
                    const std::vector<DeviceAnswer>& answers) {
  const Trace& trace = measured.trace;
  const TraceLoad& load = measured.load;
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = CountRows(trace);
  if (trace.has_history) {
    rows.push_back({absl::StrCat("peak live, aligned to ", measured.alignment),
                    SizeText(load.peak_live_bytes)});
    rows.push_back({"  reached at event", CountText(load.peak_event)});
  }
  rows.push_back({"most allocations live at once", CountText(load.peak_live_count)});
  rows.push_back({"never freed", CountText(load.unfreed_count)});
  rows.push_back({"  bytes", SizeText(load.unfreed_bytes)});
  AddCountIfAny("frees without allocation", trace.unmatched_frees, rows);
  AddCountIfAny("rows skipped", trace.skipped_rows, rows);
  rows.push_back({"recording ended early", trace.ended_early ? "yes" : "no"});
  AddReservedRows(measured, rows);
  std::cout << TableText(rows);
  PrintLargestUnfreed(trace);
  for (const DeviceAnswer& answer : answers) std::cout << "\n" << DeviceText(answer);
}

// Answers for each device of the file: first that of `measured`, then those with refused requests.
absl::StatusOr<std::vector<DeviceAnswer>> Answers(const InfoOptions& options,
                                                  const MeasuredTrace& measured,
                                                  const std::vector<CategoryRule>& rules) {
  absl::StatusOr<DeviceAnswer> first = AnswerFor(measured, rules);
  if (!first.ok()) return AboutFile(options.trace, first.status());
  std::vector<DeviceAnswer> answers = {*std::move(first)};
  // Other formats hold one device.
  const bool is_profile = measured.trace.format == TraceFormat::kChromeTrace;
  if (!is_profile && measured.trace.format != TraceFormat::kPyTorchSnapshot) return answers;
  for (const std::int32_t device : measured.trace.devices) {
    if (device == measured.trace.device) continue;
    const absl::StatusOr<MeasuredTrace> other =
        ReadMeasured(options.trace, options.alignment, {.device = device});
    if (!other.ok() && is_profile) continue;  // events, but no allocation
    if (!other.ok()) return other.status();
    absl::StatusOr<DeviceAnswer> answer = AnswerFor(*other, rules);
    if (!answer.ok()) return AboutFile(options.trace, answer.status());
    answers.push_back(*std::move(answer));
  }
  std::stable_partition(answers.begin() + 1, answers.end(),
                        [](const DeviceAnswer& answer) { return answer.refusal.has_value(); });
  return answers;
}

absl::StatusOr<Answer> RunInfo(const InfoOptions& options) {
  const absl::StatusOr<std::vector<CategoryRule>> rules = ParseCategoryRules(options.categories);
  if (!rules.ok()) return rules.status();
  const absl::StatusOr<MeasuredTrace> measured =
      ReadMeasured(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  const absl::StatusOr<std::vector<DeviceAnswer>> answers = Answers(options, *measured, *rules);
  if (!answers.ok()) return answers.status();
  if (options.json) {
    PrintInfoJson(*measured, *answers);
  } else {
    PrintInfoTable(options, *measured, *answers);
  }
  return Answer::kYes;
}

}  // namespace

Command AddInfo(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* info = app.add_subcommand(
      "info",
      "Tells for each device of a trace how much memory it needs, which lines hold it, and which "
      "request was refused");
  info->group("Traces");
  AddTraceArgument(*info, options->trace);
  AddAlignOption(*info, options->alignment);
  AddTraceDeviceOption(*info, options->read);
  info->add_option("--category", options->categories,
                   "Count the memory of stacks with a frame that matches this POSIX extended "
                   "regular expression under this name; a frame is 'FILE:LINE NAME'; may be given "
                   "several times, the first match counts")
      ->allow_extra_args(false)
      ->type_name("NAME=REGEX");
  AddJsonOption(*info, options->json);
  AddExamples(*info, {"tidepool info examples/traces/vgg16-b4-sgd.rmm.csv.gz",
                      "tidepool info snapshot.pickle --device 1 --json",
                      "tidepool info snapshot.pickle --category 'attention=attn|sdpa'"});
  return {info, [options] { return RunInfo(*options); }};
}

}  // namespace tidepool::tool
