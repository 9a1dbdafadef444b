// tidepool info: what is in a trace.
#include <algorithm>
#include <iostream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trace_replay/command.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

struct InfoOptions {
  std::string trace;
  std::int64_t alignment = 0;
  ReadOptions read;
  bool json = false;
};

constexpr std::size_t kListed = 10;

// The allocations that are never freed, the largest first.
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

// How many different stacks allocated something.
std::int64_t Stacks(const Trace& trace) {
  std::vector<bool> are_used(trace.frames.size() + 1);
  for (const TraceAllocation& allocation : trace.allocations) are_used[allocation.tag] = true;
  return std::count(are_used.begin() + 1, are_used.end(), true);
}

std::string Id(const Trace& trace, std::uint32_t allocation) {
  return std::string(trace.allocation_ids[allocation]);
}

void PrintInfoJson(const MeasuredTrace& measured) {
  const Trace& trace = measured.trace;
  const TraceLoad& load = measured.load;
  nlohmann::ordered_json json = {{"trace", TraceJson(measured)}};
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
  for (std::size_t i = 0; i < std::min(kListed, unfreed.size()); ++i) {
    json["largest_unfreed"].push_back(
        {{"id", Id(trace, unfreed[i])}, {"bytes", trace.allocations[unfreed[i]].bytes}});
  }
  PrintJson(json);
}

std::string DevicesText(const Trace& trace) {
  if (trace.devices.empty()) return "not known";
  std::string text = absl::StrCat(trace.device);
  if (trace.devices.size() > 1) absl::StrAppend(&text, " of ", absl::StrJoin(trace.devices, ", "));
  return text;
}

void AddReservedRows(const MeasuredTrace& measured, std::vector<std::vector<std::string>>& rows) {
  if (!measured.reserved.has_value()) return;
  const ReservedLoad& reserved = *measured.reserved;
  rows.push_back({"peak reserved when recorded", SizeText(reserved.peak_reserved_bytes)});
  rows.push_back(
      {"  / peak live", RatioText(Overhead(reserved.peak_reserved_bytes, measured.load))});
  rows.push_back({"  at the end", SizeText(reserved.reserved_bytes)});
}

void PrintInfoTable(const InfoOptions& options, const MeasuredTrace& measured) {
  const Trace& trace = measured.trace;
  const TraceLoad& load = measured.load;
  PrintTraceLine(options.trace, measured);
  std::vector<std::vector<std::string>> rows = {
      {"frees", CountText(Count(trace, TraceEvent::Kind::kFree))},
      {"failures", CountText(Count(trace, TraceEvent::Kind::kFailure))},
      {"waits", CountText(Count(trace, TraceEvent::Kind::kWait))},
      {"marks", CountText(Count(trace, TraceEvent::Kind::kMark))},
      {"streams", CountText(static_cast<std::int64_t>(trace.stream_names.size()))},
      {"threads", CountText(static_cast<std::int64_t>(trace.thread_names.size()))},
      {"stacks", CountText(Stacks(trace))},
      {"device", DevicesText(trace)},
      {"offloadable", CountText(Offloadable(trace))},
      {absl::StrCat("peak live, aligned to ", measured.alignment), SizeText(load.peak_live_bytes)},
      {"  reached at event", CountText(load.peak_event)},
      {"most live at a time", CountText(load.peak_live_count)},
      {"never freed", CountText(load.unfreed_count)},
      {"  bytes", SizeText(load.unfreed_bytes)},
      {"frees without allocation", CountText(trace.unmatched_frees)},
      {"rows skipped", CountText(trace.skipped_rows)},
      {"ended early", trace.ended_early ? "yes" : "no"},
  };
  AddReservedRows(measured, rows);
  std::cout << TableText(rows);
  const std::vector<std::uint32_t> unfreed = Unfreed(trace);
  if (unfreed.empty()) return;
  rows.clear();
  for (std::size_t i = 0; i < std::min(kListed, unfreed.size()); ++i) {
    rows.push_back(
        {absl::CHexEscape(Id(trace, unfreed[i])), SizeText(trace.allocations[unfreed[i]].bytes)});
  }
  std::cout << "\n  the largest that were never freed\n" << TableText(rows);
}

absl::StatusOr<Answer> RunInfo(const InfoOptions& options) {
  const absl::StatusOr<MeasuredTrace> measured =
      ReadMeasured(options.trace, options.alignment, options.read);
  if (!measured.ok()) return measured.status();
  if (options.json) {
    PrintInfoJson(*measured);
  } else {
    PrintInfoTable(options, *measured);
  }
  return Answer::kYes;
}

}  // namespace

Command AddInfo(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  CLI::App* info = app.add_subcommand("info", "What is in a trace");
  info->add_option("trace", options->trace, "The trace")->required();
  AddAlignOption(*info, options->alignment);
  AddTraceDeviceOption(*info, options->read);
  info->add_flag("--json", options->json, "One JSON object");
  return {info, [options] { return RunInfo(*options); }};
}

}  // namespace tidepool::tool
