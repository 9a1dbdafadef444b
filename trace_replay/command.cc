// SPDX-License-Identifier: Apache-2.0
// Reading, and the head of answers, for all commands about traces.
#include "trace_replay/command.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/arithmetic.h"
#include "tidepool/trace/frames.h"
#include "tidepool/trace/trace_files.h"
#include "trace_replay/caller.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

// Returns the index of the first event that was recorded when it happened.
std::int64_t FirstRecordedEvent(const Trace& trace) {
  std::int64_t earlier = trace.earlier_allocations;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent::Kind kind = trace.events[i].kind;
    if (earlier == 0) return static_cast<std::int64_t>(i);
    if (kind == TraceEvent::Kind::kAllocate) --earlier;
  }
  return static_cast<std::int64_t>(trace.events.size());
}

// Whether the history lost its beginning: stacks of earlier memory were recorded, so PyTorch's
// buffer had overwritten their events.
bool HasLostEvents(const Trace& trace) {
  return trace.original_format == TraceFormat::kPyTorchSnapshot &&
         std::any_of(trace.allocations.begin(),
                     trace.allocations.begin() + trace.earlier_allocations,
                     [](const TraceAllocation& allocation) { return allocation.tag != 0; });
}

// Says since when the history tells.
std::string BeginningText(const Trace& trace) {
  const std::int64_t first = FirstRecordedEvent(trace);
  if (first >= static_cast<std::int64_t>(trace.events.size())) return "";
  const TraceEvent& event = trace.events[static_cast<std::size_t>(first)];
  std::string text = absl::StrCat("; the history begins with event ", CountText(first));
  const bool has_times = trace.original_format == TraceFormat::kPyTorchSnapshot && event.time > 0;
  if (has_times) {
    absl::StrAppend(&text, ", at ",
                    absl::FormatTime("%Y-%m-%d %H:%M:%E3S UTC", absl::FromUnixNanos(event.time),
                                     absl::UTCTimeZone()));
  }
  if (HasLostEvents(trace)) {
    absl::StrAppend(&text,
                    ": earlier events were overwritten (max_entries of _record_memory_history), "
                    "and a higher peak before is not known");
  }
  return text;
}

bool BeganAtPeak(const Trace& trace, const TraceLoad& load) {
  return trace.has_history && trace.earlier_allocations > 0 &&
         load.peak_event < FirstRecordedEvent(trace);
}

}  // namespace

absl::StatusOr<MeasuredTrace> ReadMeasured(const std::string& path, std::int64_t alignment,
                                           const ReadOptions& options) {
  absl::StatusOr<std::shared_ptr<const Trace>> read = ReadOrShare(path, options);
  if (!read.ok()) return read.status();
  const Trace& trace = **read;
  if (alignment == 0) alignment = trace.default_alignment;
  absl::StatusOr<TraceLoad> load = MeasureLoad(trace, alignment);
  if (!load.ok()) return AboutFile(path, load.status());
  absl::StatusOr<TraceDemand> demand = MeasureDemand(trace, alignment);
  if (!demand.ok()) return AboutFile(path, demand.status());
  MeasuredTrace measured;
  measured.alignment = alignment;
  measured.load = *load;
  measured.demand = *std::move(demand);
  measured.recorded_events = trace.events.size();
  measured.recorded_allocations = trace.allocations.size();
  measured.reserved = MeasureReserved(trace);
  measured.is_peak_known = trace.has_history;
  measured.began_at_peak = BeganAtPeak(trace, *load);
  measured.contradicts = trace.has_history && measured.reserved.has_value() &&
                         measured.reserved->peak_reserved_bytes < measured.load.peak_live_bytes;
  measured.trace = *std::move(read);
  return measured;
}

absl::StatusOr<MeasuredTrace> ToRequests(MeasuredTrace measured) {
  absl::StatusOr<Trace> requests = WithRefusedRequests(*measured.trace);
  if (!requests.ok()) return requests.status();
  measured.trace = std::make_shared<const Trace>(*std::move(requests));
  return measured;
}

absl::StatusOr<MeasuredTrace> ReadRequests(const std::string& path, std::int64_t alignment,
                                           const ReadOptions& options) {
  absl::StatusOr<MeasuredTrace> measured = ReadMeasured(path, alignment, options);
  if (!measured.ok() || measured->trace->failures.empty()) return measured;
  measured = ToRequests(*std::move(measured));
  return measured.ok() ? std::move(measured) : AboutFile(path, measured.status());
}

// A refused request has two events where the recording has one.
std::int64_t RecordedEvent(const MeasuredTrace& requests, std::int64_t event) {
  std::int64_t more = 0;
  for (const RefusedRequest& refused : requests.demand.refused) {
    if (refused.bytes > 0 && refused.event + more < event) ++more;
  }
  return event - more;
}

std::vector<std::int64_t> OfRecorded(const MeasuredTrace& requests,
                                     std::vector<std::int64_t> values) {
  std::size_t kept = 0;
  std::size_t number = 0;
  std::int64_t more = 0;  // events of refused requests so far, beyond the recorded ones
  auto refused = requests.demand.refused.begin();
  const auto end = requests.demand.refused.end();
  for (std::size_t i = 0; i < requests.trace->events.size() && number < values.size(); ++i) {
    if (requests.trace->events[i].kind != TraceEvent::Kind::kAllocate) continue;
    const auto event = static_cast<std::int64_t>(i);
    while (refused != end && (refused->bytes == 0 || refused->event + more < event)) ++refused;
    if (refused != end && refused->event + more == event) {
      ++more;
      ++refused;
    } else {
      values[kept++] = values[number];
    }
    ++number;
  }
  values.resize(kept);
  return values;
}

double Overhead(std::int64_t bytes, const TraceLoad& load) {
  return load.peak_live_bytes == 0
             ? 1
             : static_cast<double>(bytes) / static_cast<double>(load.peak_live_bytes);
}

absl::Status AboutFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(absl::CHexEscape(path), ": ", status.message()));
}

nlohmann::ordered_json TraceJson(const MeasuredTrace& measured) {
  return {{"format", TraceFormatName(measured.trace->format)},
          {"events", measured.recorded_events},
          {"allocations", measured.recorded_allocations},
          {"unfreed", measured.load.unfreed_count},
          {"alignment", measured.alignment},
          {"peak_live_bytes", measured.is_peak_known
                                  ? nlohmann::ordered_json(measured.load.peak_live_bytes)
                                  : nlohmann::ordered_json(nullptr)}};
}

nlohmann::ordered_json ReservedJson(const MeasuredTrace& measured) {
  nlohmann::ordered_json json = {{"reserved_bytes", nullptr},
                                 {"peak_reserved_bytes", nullptr},
                                 {"reserved_overhead", nullptr}};
  if (measured.reserved.has_value()) {
    json["reserved_bytes"] = measured.reserved->reserved_bytes;
    if (measured.contradicts) return json;
    json["peak_reserved_bytes"] = measured.reserved->peak_reserved_bytes;
    json["reserved_overhead"] = Overhead(measured.reserved->peak_reserved_bytes, measured.load);
  }
  return json;
}

std::vector<std::string> RecordingNotes(const MeasuredTrace& measured) {
  const Trace& trace = *measured.trace;
  if (trace.original_format == TraceFormat::kRmmDebugLog) {
    return {"only refused requests: RMM's logging_resource_adaptor writes a log of all of them"};
  }
  if (!trace.has_history) {
    return {std::string(kNoHistory)};
  }
  std::int64_t earlier = 0;
  for (std::int64_t i = 0; i < trace.earlier_allocations; ++i) {
    const std::int64_t bytes = trace.allocations[static_cast<std::size_t>(i)].bytes;
    earlier += AlignUp(bytes, measured.alignment);
  }
  std::vector<std::string> notes;
  if (earlier > 0) {
    notes.push_back(absl::StrCat(SizeText(earlier), " were allocated before recording began",
                                 trace.original_format == TraceFormat::kChromeTrace
                                     ? " (from the profiler's 'Total Allocated')"
                                     : "",
                                 BeginningText(trace)));
  }
  if (measured.contradicts) {
    notes.push_back(absl::StrCat(
        SizeText(measured.load.peak_live_bytes), " were live, but only ",
        SizeText(measured.reserved->peak_reserved_bytes),
        " reserved: the figures contradict each other, the history lacks reservations"));
  }
  if (!trace.pauses.empty()) {
    notes.push_back("the live memory counts sleeping regions: `tidepool plan --regions` does not");
  }
  return notes;
}

std::optional<std::size_t> WorstRefusal(const TraceDemand& demand) {
  if (demand.refused.empty()) return std::nullopt;
  const auto sum = [](const RefusedRequest& refused) {
    return static_cast<double>(refused.live_bytes) + static_cast<double>(refused.bytes);
  };
  const auto worst = std::max_element(
      demand.refused.begin(), demand.refused.end(),
      [&](const RefusedRequest& a, const RefusedRequest& b) { return sum(a) < sum(b); });
  return static_cast<std::size_t>(worst - demand.refused.begin());
}

std::string AtFrameText(const std::string& frame) {
  return frame == "(no stack)" ? "" : absl::StrCat(" at ", absl::CHexEscape(frame));
}

std::string WorstRefusalText(const MeasuredTrace& measured) {
  const std::optional<std::size_t> worst = WorstRefusal(measured.demand);
  if (!worst.has_value()) return "";
  const RefusedRequest& refused = measured.demand.refused[*worst];
  std::string text = absl::StrCat(SizeText(refused.bytes), " refused",
                                  AtFrameText(FrameNames(*measured.trace).Name(refused.tag)));
  if (measured.trace->original_format == TraceFormat::kRmmDebugLog) return text;
  return absl::StrCat(text, " with ", SizeText(refused.live_bytes), " live");
}

// Returns ", peak live 801.4 MiB", or as much of it as the file tells.
static std::string LiveOf(const MeasuredTrace& measured) {
  const Trace& trace = *measured.trace;
  if (trace.original_format == TraceFormat::kRmmDebugLog) return "";
  if (!trace.has_history) return absl::StrCat(", live ", SizeText(measured.load.unfreed_bytes));
  return absl::StrCat(measured.began_at_peak ? ", live at its beginning " : ", peak live ",
                      SizeText(measured.load.peak_live_bytes));
}

void PrintTraceLine(const std::string& path, const MeasuredTrace& measured) {
  std::cout << absl::CHexEscape(path) << "\n  " << TraceFormatName(measured.trace->format) << ", "
            << CountText(static_cast<std::int64_t>(measured.recorded_events)) << " events, "
            << CountText(static_cast<std::int64_t>(measured.recorded_allocations)) << " allocations"
            << LiveOf(measured);
  if (!measured.demand.refused.empty()) {
    std::cout << ", out of memory: needs at least " << SizeText(measured.demand.needs_bytes);
  }
  if (const std::string refusal = WorstRefusalText(measured); !refusal.empty()) {
    std::cout << "\n  " << refusal;
  }
  for (const std::string& note : RecordingNotes(measured)) std::cout << "\n  " << note;
  std::cout << "\n\n";
}

FirstRefused FirstRefusedAt(const MeasuredTrace& requests, std::int64_t event) {
  constexpr std::string_view kRefusedBefore = "refused request ";
  const Trace& trace = *requests.trace;
  const TraceEvent& refused = trace.events[static_cast<std::size_t>(event)];
  FirstRefused first = {.event = RecordedEvent(requests, event),
                        .stream = std::string(trace.stream_names[refused.stream])};
  const FrameNames names(trace);
  if (refused.kind == TraceEvent::Kind::kAllocate) {
    const TraceAllocation& request = trace.allocations[refused.index];
    first.line = request.line;
    first.frame = names.Name(request.tag);
    first.was_refused_before = !requests.demand.refused.empty() &&
                               trace.allocation_ids[refused.index].starts_with(kRefusedBefore);
  } else if (refused.kind == TraceEvent::Kind::kFailure) {
    const TraceFailure& request = trace.failures[refused.index];
    first.line = request.line;
    first.frame = names.Name(request.tag);
    first.was_refused_before = true;
  } else if (refused.kind == TraceEvent::Kind::kResume) {
    first.frame = names.Name(0);
    first.region = std::string(trace.region_names[trace.pauses[refused.index].region - 1U]);
  }
  return first;
}

nlohmann::ordered_json FirstRefusedJson(const FirstRefused& first) {
  nlohmann::ordered_json json = {
      {"event", first.event},      {"line", nullptr},
      {"stream", first.stream},    {"frame", first.frame},
      {"resumed_region", nullptr}, {"recorded_refusal", first.was_refused_before}};
  if (!first.region.empty()) json["resumed_region"] = first.region;
  if (first.line > 0) json["line"] = first.line;
  return json;
}

std::vector<std::vector<std::string>> FirstRefusedRows(const FirstRefused& first) {
  std::vector<std::vector<std::string>> rows = {{"first refused at event", CountText(first.event)}};
  if (first.line > 0) rows.push_back({"  on line", CountText(first.line)});
  if (!first.stream.empty())
    rows.push_back({"  on", absl::StrCat("stream ", absl::CHexEscape(first.stream))});
  if (!first.region.empty())
    rows.push_back({"  to resume", absl::StrCat("region ", absl::CHexEscape(first.region))});
  if (first.frame != "(no stack)") rows.push_back({"  by", absl::CHexEscape(first.frame)});
  if (first.was_refused_before) rows.push_back({"  when recorded", "refused, too"});
  return rows;
}

std::string HeldText(const MeasuredTrace& measured) {
  return measured.trace->original_format == TraceFormat::kRmmDebugLog ? "the refused request"
                                                                      : "the live memory";
}

std::string ServedText(const MeasuredTrace& measured, std::int64_t refused) {
  const std::string served = refused == 0 ? "all" : absl::StrCat("all but ", CountText(refused));
  return measured.trace->has_history ? served : absl::StrCat(served, " of ", HeldText(measured));
}

void PrintJson(const nlohmann::ordered_json& json) {
  // Terminals obey control characters beyond ASCII too, so all of those are escaped.
  const std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (const Caller* caller = CurrentCaller(); caller != nullptr) {
    *caller->json = text;
  } else {
    std::cout << text << '\n';
  }
}

}  // namespace tidepool::tool
