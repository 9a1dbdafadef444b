// SPDX-License-Identifier: Apache-2.0
// Reading, and the head of answers, for all commands about traces.
#include "trace_replay/command.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/trace/frames.h"
#include "tidepool/trace/trace_files.h"
#include "trace_replay/caller.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
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
          {"peak_live_bytes", measured.load.peak_live_bytes}};
}

nlohmann::ordered_json ReservedJson(const MeasuredTrace& measured) {
  nlohmann::ordered_json json = {{"reserved_bytes", nullptr},
                                 {"peak_reserved_bytes", nullptr},
                                 {"reserved_overhead", nullptr}};
  if (measured.reserved.has_value()) {
    json["reserved_bytes"] = measured.reserved->reserved_bytes;
    json["peak_reserved_bytes"] = measured.reserved->peak_reserved_bytes;
    json["reserved_overhead"] = Overhead(measured.reserved->peak_reserved_bytes, measured.load);
  }
  return json;
}

std::vector<std::string> RecordingNotes(const MeasuredTrace& measured) {
  const Trace& trace = *measured.trace;
  if (!trace.has_history) {
    return {std::string(kNoHistory)};
  }
  std::int64_t earlier = 0;
  for (std::int64_t i = 0; i < trace.earlier_allocations; ++i) {
    const std::int64_t bytes = trace.allocations[static_cast<std::size_t>(i)].bytes;
    earlier += (bytes + measured.alignment - 1) & -measured.alignment;
  }
  if (earlier == 0) return {};
  return {absl::StrCat(SizeText(earlier), " were allocated before recording began",
                       trace.original_format == TraceFormat::kChromeTrace
                           ? " (from the profiler's 'Total Allocated')"
                           : "")};
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
  return absl::StrCat(SizeText(refused.bytes), " refused",
                      AtFrameText(FrameNames(*measured.trace).Name(refused.tag)), " with ",
                      SizeText(refused.live_bytes), " live");
}

void PrintTraceLine(const std::string& path, const MeasuredTrace& measured) {
  std::cout << absl::CHexEscape(path) << "\n  " << TraceFormatName(measured.trace->format) << ", "
            << CountText(static_cast<std::int64_t>(measured.recorded_events)) << " events, "
            << CountText(static_cast<std::int64_t>(measured.recorded_allocations))
            << " allocations, ";
  if (measured.trace->has_history) {
    std::cout << "peak live " << SizeText(measured.load.peak_live_bytes);
  } else {
    std::cout << "live " << SizeText(measured.load.unfreed_bytes);
  }
  if (!measured.demand.refused.empty()) {
    std::cout << ", out of memory: needs at least " << SizeText(measured.demand.needs_bytes);
  }
  if (const std::string refusal = WorstRefusalText(measured); !refusal.empty()) {
    std::cout << "\n  " << refusal;
  }
  for (const std::string& note : RecordingNotes(measured)) std::cout << "\n  " << note;
  std::cout << "\n\n";
}

std::string ServedText(const MeasuredTrace& measured, std::int64_t refused) {
  const std::string served = refused == 0 ? "all" : absl::StrCat("all but ", CountText(refused));
  return measured.trace->has_history ? served : served + " of the live memory";
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
