// SPDX-License-Identifier: Apache-2.0
// The command `info`: the contents of a trace in figures.
#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tidepool/trace/frames.h"
#include "tidepool/trace/region_load.h"
#include "trace_replay/command.h"
#include "trace_replay/commands/category_rules.h"
#include "trace_replay/commands/device_answer.h"
#include "trace_replay/commands/ranks.h"
#include "trace_replay/oom_text.h"
#include "trace_replay/options.h"
#include "trace_replay/text.h"
#include "trace_replay/wrong_file.h"

namespace tidepool::tool {
namespace {

struct InfoOptions {
  std::vector<std::string> traces;  // one, or the ranks of a job
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

// Numbers of the events of each kind, in one pass: large traces do not fit into a cache.
class KindCounts {
 public:
  explicit KindCounts(const Trace& trace) {
    for (const TraceEvent& event : trace.events) ++counts_[static_cast<std::size_t>(event.kind)];
  }
  std::int64_t operator[](TraceEvent::Kind kind) const {
    return counts_[static_cast<std::size_t>(kind)];
  }

 private:
  std::array<std::int64_t, static_cast<std::size_t>(TraceEvent::Kind::kResume) + 1> counts_ = {};
};

// Counts the distinct stacks that allocated memory.
std::int64_t Stacks(const Trace& trace) {
  std::vector<bool> are_used(trace.frames.size() + 1);
  for (const TraceAllocation& allocation : trace.allocations) are_used[allocation.tag] = true;
  return std::count(are_used.begin() + 1, are_used.end(), true);
}

std::string Id(const Trace& trace, std::uint32_t allocation) {
  return std::string(trace.allocation_ids[allocation]);
}

// Returns the loads of the regions; the trace was measured at this alignment without an error.
RegionLoads LoadsOfRegions(const MeasuredTrace& measured) {
  return MeasureRegions(*measured.trace, measured.alignment).value_or(RegionLoads());
}

nlohmann::ordered_json RegionsJson(const MeasuredTrace& measured, const RegionLoads& loads) {
  nlohmann::ordered_json regions = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < loads.regions.size(); ++i) {
    const RegionLoad& load = loads.regions[i];
    nlohmann::ordered_json modes = nlohmann::ordered_json::object();
    for (std::size_t mode = 0; mode < kSleepModes; ++mode) {
      modes[std::string(SleepModeName(static_cast<SleepMode>(mode)))] = load.pauses[mode];
    }
    regions.push_back({{"name", std::string(measured.trace->region_names[i])},
                       {"allocations", load.allocations},
                       {"failures", load.failures},
                       {"peak_live_bytes", load.peak_live_bytes},
                       {"unfreed_bytes", load.unfreed_bytes},
                       {"pauses", load.pause_count},
                       {"pauses_by_mode", std::move(modes)},
                       {"paused_bytes", load.paused_bytes},
                       {"asleep_ns", load.asleep_ns},
                       {"is_asleep", load.is_asleep}});
  }
  return regions;
}

nlohmann::ordered_json InfoJson(const MeasuredTrace& measured,
                                const std::vector<DeviceAnswer>& answers) {
  const Trace& trace = *measured.trace;
  const TraceLoad& load = measured.load;
  nlohmann::ordered_json json = {{"trace", TraceJson(measured)}};
  json["history"] = trace.has_history;
  const KindCounts counts(trace);
  json["frees"] = counts[TraceEvent::Kind::kFree];
  json["failures"] = counts[TraceEvent::Kind::kFailure];
  json["waits"] = counts[TraceEvent::Kind::kWait];
  json["marks"] = counts[TraceEvent::Kind::kMark];
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
  const RegionLoads regions = LoadsOfRegions(measured);
  json["peak_awake_bytes"] = regions.peak_awake_bytes;
  json["regions"] = RegionsJson(measured, regions);
  json["largest_unfreed"] = nlohmann::ordered_json::array();
  const std::vector<std::uint32_t> unfreed = Unfreed(trace);
  for (std::size_t i = 0; i < std::min(kListedUnfreed, unfreed.size()); ++i) {
    json["largest_unfreed"].push_back(
        {{"id", Id(trace, unfreed[i])}, {"bytes", trace.allocations[unfreed[i]].bytes}});
  }
  json["per_device"] = nlohmann::ordered_json::array();
  for (const DeviceAnswer& answer : answers) json["per_device"].push_back(DeviceJson(answer));
  return json;
}

std::string DevicesText(const Trace& trace) {
  std::string text = absl::StrCat(trace.device);
  if (trace.devices.size() > 1) absl::StrAppend(&text, " of ", absl::StrJoin(trace.devices, ", "));
  return text;
}

void AddReservedRows(const MeasuredTrace& measured, std::vector<std::vector<std::string>>& rows) {
  if (!measured.reserved.has_value()) return;
  const ReservedLoad& reserved = *measured.reserved;
  const bool has_history = measured.trace->has_history;
  if (measured.contradicts) {
    rows.push_back(
        {"reserved at the end, by the recorded allocator", SizeText(reserved.reserved_bytes)});
    return;
  }
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
                  SizeText(trace.failures[(*first).index].bytes), " refused at event ",
                  CountText(first - trace.events.begin()), ")");
  return text;
}

void AddCountIfAny(const std::string& name, std::int64_t count,
                   std::vector<std::vector<std::string>>& rows) {
  if (count > 0) rows.push_back({name, CountText(count)});
}

std::vector<std::vector<std::string>> CountRows(const Trace& trace) {
  std::vector<std::vector<std::string>> rows;
  const KindCounts counts(trace);
  AddCountIfAny("frees", counts[TraceEvent::Kind::kFree], rows);
  if (!trace.failures.empty()) rows.push_back({"out of memory", FailuresText(trace)});
  AddCountIfAny("waits between streams", counts[TraceEvent::Kind::kWait], rows);
  AddCountIfAny("marks", counts[TraceEvent::Kind::kMark], rows);
  AddCountIfAny("streams", static_cast<std::int64_t>(trace.stream_names.size()), rows);
  AddCountIfAny("threads", static_cast<std::int64_t>(trace.thread_names.size()), rows);
  AddCountIfAny("stacks", Stacks(trace), rows);
  if (!trace.devices.empty()) rows.push_back({"device", DevicesText(trace)});
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

// "host 2, discard 1".
std::string ModesText(const RegionLoad& load) {
  std::string text;
  for (std::size_t mode = 0; mode < kSleepModes; ++mode) {
    if (load.pauses[mode] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    std::string(SleepModeName(static_cast<SleepMode>(mode))), " ",
                    CountText(load.pauses[mode]));
  }
  return text;
}

void PrintRegions(const Trace& trace, const RegionLoads& loads) {
  if (loads.regions.empty()) return;
  std::vector<std::vector<std::string>> rows = {
      {"region", "allocations", "peak live", "pauses", "bytes paused", "time asleep"}};
  for (std::size_t i = 0; i < loads.regions.size(); ++i) {
    const RegionLoad& load = loads.regions[i];
    rows.push_back({absl::CHexEscape(std::string(trace.region_names[i])),
                    CountText(load.allocations), SizeText(load.peak_live_bytes), ModesText(load),
                    SizeText(load.paused_bytes),
                    MillisecondsText(static_cast<double>(load.asleep_ns) * 1e-9)});
    if (load.is_asleep) rows.back().push_back("asleep at the end");
  }
  std::cout << "\n" << TableText(rows);
}

void PrintInfoTable(const std::string& path, const MeasuredTrace& measured,
                    const std::vector<DeviceAnswer>& answers) {
  const Trace& trace = *measured.trace;
  const TraceLoad& load = measured.load;
  for (const DeviceAnswer& answer : answers) std::cout << DeviceText(answer) << "\n";
  PrintTraceLine(path, measured);
  std::vector<std::vector<std::string>> rows = CountRows(trace);
  if (measured.is_peak_known) {
    rows.push_back({absl::StrCat("peak live, aligned to ", measured.alignment),
                    SizeText(load.peak_live_bytes)});
    rows.push_back({"  reached at event", CountText(load.peak_event)});
  }
  const RegionLoads regions = LoadsOfRegions(measured);
  if (!trace.pauses.empty()) {
    rows.push_back({"peak live without sleeping regions", SizeText(regions.peak_awake_bytes)});
    rows.push_back({"  reached at event", CountText(regions.peak_awake_event)});
  }
  AddCountIfAny("most allocations live at once", load.peak_live_count, rows);
  AddCountIfAny("never freed", load.unfreed_count, rows);
  if (load.unfreed_count > 0) rows.push_back({"  bytes", SizeText(load.unfreed_bytes)});
  AddCountIfAny("frees without allocation", trace.unmatched_frees, rows);
  AddCountIfAny("rows skipped", trace.skipped_rows, rows);
  if (trace.ended_early) rows.push_back({"recording ended early", "yes"});
  AddReservedRows(measured, rows);
  std::cout << TableText(rows);
  PrintRegions(trace, regions);
  PrintLargestUnfreed(trace);
}

// Answers for each device of the file: first that of `measured`, then those with refused requests.
absl::StatusOr<std::vector<DeviceAnswer>> Answers(const InfoOptions& options,
                                                  const std::string& path,
                                                  const MeasuredTrace& measured,
                                                  const std::vector<CategoryRule>& rules) {
  absl::StatusOr<DeviceAnswer> first = AnswerFor(measured, rules);
  if (!first.ok()) return AboutFile(path, first.status());
  std::vector<DeviceAnswer> answers = {*std::move(first)};
  // Other formats hold one device.
  const bool is_profile = measured.trace->format == TraceFormat::kChromeTrace;
  if (!is_profile && measured.trace->format != TraceFormat::kPyTorchSnapshot) return answers;
  for (const std::int32_t device : measured.trace->devices) {
    if (device == measured.trace->device) continue;
    const absl::StatusOr<MeasuredTrace> other =
        ReadMeasured(path, options.alignment, {.device = device});
    if (!other.ok() && is_profile) continue;  // events, but no allocation
    if (!other.ok()) return other.status();
    absl::StatusOr<DeviceAnswer> answer = AnswerFor(*other, rules);
    if (!answer.ok()) return AboutFile(path, answer.status());
    answers.push_back(*std::move(answer));
  }
  std::stable_partition(answers.begin() + 1, answers.end(),
                        [](const DeviceAnswer& answer) { return answer.refusal.has_value(); });
  return answers;
}

// A trace that was read, and its answers.
struct Information {
  MeasuredTrace measured;
  std::vector<DeviceAnswer> answers;
};

absl::StatusOr<Information> ReadInformation(const InfoOptions& options, const std::string& path,
                                            const std::vector<CategoryRule>& rules) {
  absl::StatusOr<MeasuredTrace> measured = ReadMeasured(path, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  absl::StatusOr<std::vector<DeviceAnswer>> answers = Answers(options, path, *measured, rules);
  if (!answers.ok()) return answers.status();
  return Information{*std::move(measured), *std::move(answers)};
}

// Keeps no more than one trace at a time: those of a large job are many.
absl::StatusOr<Answer> RunJob(const InfoOptions& options, const std::vector<CategoryRule>& rules) {
  std::vector<Rank> ranks;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::vector<std::vector<DeviceAnswer>> answers;
  for (const std::string& path : options.traces) {
    absl::StatusOr<Information> information = ReadInformation(options, path, rules);
    if (!information.ok()) return information.status();
    ranks.push_back(RankOf(path, information->measured));
    nlohmann::ordered_json json = {{"file", path}};
    json.update(InfoJson(information->measured, information->answers));
    list.push_back(std::move(json));
    answers.push_back(std::move(information->answers));
  }
  if (options.json) {
    nlohmann::ordered_json json = JobJson(ranks);
    json["ranks"] = std::move(list);
    PrintJson(json);
  } else {
    std::cout << JobText(ranks);
    for (const DeviceAnswer& answer : answers[WorstRank(ranks)]) {
      std::cout << "\n" << DeviceText(answer);
    }
  }
  return Answer::kYes;
}

void PrintOutOfMemory(const OutOfMemoryNumbers& numbers, bool json) {
  if (json) {
    PrintJson({{"out_of_memory", OutOfMemoryJson(numbers)}});
  } else {
    std::cout << OutOfMemoryText(numbers);
  }
}

// Answers for a file that is no trace: it may be the text of an error, such as the log of a job.
absl::StatusOr<Answer> RunWithoutTrace(const InfoOptions& options, const absl::Status& status) {
  const std::optional<OutOfMemoryNumbers> numbers = OutOfMemoryIn(options.traces.front());
  if (!numbers.has_value()) return status;
  PrintOutOfMemory(*numbers, options.json);
  return Answer::kYes;
}

absl::StatusOr<Answer> RunInfo(const InfoOptions& options) {
  const absl::StatusOr<std::vector<CategoryRule>> rules = ParseCategoryRules(options.categories);
  if (!rules.ok()) return rules.status();
  if (options.traces.size() > 1) return RunJob(options, *rules);
  const std::string& path = options.traces.front();
  if (IsStandardInput(path)) {
    return RunWithoutTrace(
        options, absl::InvalidArgumentError(
                     "standard input: no text of PyTorch's OutOfMemoryError ('Tried to allocate "
                     "...'), expected one; a trace is given as a file"));
  }
  const absl::StatusOr<Information> information = ReadInformation(options, path, *rules);
  if (absl::IsInvalidArgument(information.status()))
    return RunWithoutTrace(options, information.status());
  if (!information.ok()) return information.status();
  if (options.json) {
    PrintJson(InfoJson(information->measured, information->answers));
  } else {
    PrintInfoTable(path, information->measured, information->answers);
  }
  return Answer::kYes;
}

}  // namespace

Command AddInfo(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* info = app.add_subcommand(
      "info",
      "Shows how much memory each device of a trace needs, which lines hold it, and which request "
      "was refused; for several traces, which rank of the job needs the most; for '-', whether a "
      "setting helps against the OutOfMemoryError of PyTorch on standard input");
  info->group("Traces");
  AddRanksArgument(*info, options->traces);
  AddAlignOption(*info, options->alignment);
  AddTraceDeviceOption(*info, options->read);
  AddCategoryOption(*info, options->categories);
  AddJsonOption(*info, options->json);
  AddExamples(*info, {"tidepool info examples/traces/vgg16-b4-sgd.rmm.csv.gz",
                      "tidepool info snapshot.pickle --device 1 --json",
                      "tidepool info snapshot.pickle --category 'attention=attn|sdpa'",
                      "tidepool info rank0.pickle rank1.pickle"});
  return {info, [options] { return RunInfo(*options); }};
}

}  // namespace tidepool::tool
