// SPDX-License-Identifier: Apache-2.0
// Computes the answer for a device, and writes it as JSON.
#include "trace_replay/commands/device_answer.h"

#include <algorithm>
#include <utility>

#include "lib/base/arithmetic.h"
#include "tidepool/trace/frames.h"
#include "trace_replay/side_by_side.h"

namespace tidepool::tool {
namespace {

constexpr std::size_t kListed = 10;
constexpr std::size_t kListedMarks = 100;

// Returns the event at which the memory is explained; -1 without events.
std::int64_t MomentOf(const MeasuredTrace& measured, const std::optional<std::size_t>& refusal) {
  if (measured.trace->events.empty()) return -1;
  if (refusal.has_value()) return measured.demand.refused[*refusal].event;
  if (measured.trace->has_history) return measured.load.peak_event;
  return static_cast<std::int64_t>(measured.trace->events.size()) - 1;
}

absl::Status Explain(const MeasuredTrace& measured, const std::vector<CategoryRule>& rules,
                     DeviceAnswer& answer) {
  const Trace& trace = *measured.trace;
  const absl::StatusOr<std::vector<std::uint32_t>> live = LiveAfter(trace, answer.event);
  if (!live.ok()) return live.status();
  for (const std::uint32_t number : *live) {
    answer.live_bytes += AlignUp(trace.allocations[number].bytes, measured.alignment);
  }
  answer.by_frame = BytesByFrame(trace, *live, measured.alignment);
  answer.by_category = BytesByCategory(trace, Categorize(trace, rules), *live, measured.alignment);
  if (trace.reservations.empty() && trace.segments.empty()) return absl::OkStatus();
  absl::StatusOr<std::optional<ReservedMemory>> memory =
      ReservedAfter(trace, answer.event, measured.alignment);
  if (!memory.ok()) return memory.status();
  answer.memory = *std::move(memory);
  const std::int64_t last = static_cast<std::int64_t>(trace.events.size()) - 1;
  absl::StatusOr<std::optional<FreeParts>> free =
      FreeAfter(trace, answer.refusal.has_value() ? answer.event : last, measured.alignment);
  if (!free.ok()) return free.status();
  answer.free = *std::move(free);
  // The segments of a snapshot tell free memory exactly; requests do not tell the rests of blocks.
  answer.lost_bytes.reset();
  if (answer.memory.has_value() && !answer.contradicts) {
    const bool is_exact = answer.free.has_value() && !trace.has_history && !trace.segments.empty();
    answer.lost_bytes = is_exact ? answer.free->free_bytes : answer.memory->free_bytes();
  }
  return absl::OkStatus();
}

nlohmann::ordered_json RefusedJson(const DeviceAnswer& answer) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < answer.demand.refused.size(); ++i) {
    const RefusedRequest& refused = answer.demand.refused[i];
    nlohmann::ordered_json json = {{"bytes", refused.bytes},
                                   {"live_bytes", refused.live_bytes},
                                   {"event", refused.event},
                                   {"frame", answer.refused_frames[i]},
                                   {"stream", answer.refused_streams[i]},
                                   {"device_free_bytes", nullptr}};
    if (refused.device_free_bytes.has_value())
      json["device_free_bytes"] = *refused.device_free_bytes;
    list.push_back(std::move(json));
  }
  return list;
}

nlohmann::ordered_json PartsJson(const std::vector<NamedBytes>& parts, const char* name,
                                 std::size_t most) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::min(most, parts.size()); ++i) {
    list.push_back({{name, parts[i].name}, {"bytes", parts[i].bytes}});
  }
  return list;
}

// Adds the free memory by pool, stream and kind, and its sums; nulls where it is not known.
void AddFreeJson(const std::optional<FreeParts>& free, nlohmann::ordered_json& json) {
  json["free_by"] = nlohmann::ordered_json::array();
  for (const char* name :
       {"allocated_bytes", "stranded_bytes", "pending_free_bytes", "whole_segment_bytes"}) {
    json[name] = nullptr;
  }
  if (!free.has_value()) return;
  for (const FreeMemory& part : free->parts) {
    json["free_by"].push_back(
        {{"pool", part.pool},
         {"stream", part.stream},
         {"kind", SegmentKindName(part.kind)},
         {"bytes", part.bytes},
         {"segments", part.segments},
         {"is_stranded", part.pool != free->pool || part.stream != free->stream}});
  }
  // Whole blocks, as torch.cuda.memory_allocated() counts them at the end.
  json["allocated_bytes"] = free->reserved_bytes - free->free_bytes - free->pending_bytes;
  json["stranded_bytes"] = free->stranded_bytes;
  json["pending_free_bytes"] = free->pending_bytes;
  json["whole_segment_bytes"] = free->whole_bytes;
}

nlohmann::ordered_json SegmentsJson(const DeviceAnswer& answer) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (!answer.memory.has_value()) return list;
  const std::vector<SegmentUse>& segments = answer.memory->segments;
  for (std::size_t i = 0; i < std::min(kListed, segments.size()); ++i) {
    list.push_back({{"address", segments[i].address},
                    {"bytes", segments[i].bytes},
                    {"free_bytes", segments[i].free_bytes}});
  }
  return list;
}

}  // namespace

absl::StatusOr<DeviceAnswer> AnswerFor(const MeasuredTrace& measured,
                                       const std::vector<CategoryRule>& rules) {
  const Trace& trace = *measured.trace;
  DeviceAnswer answer;
  answer.device = trace.device;
  answer.devices = trace.devices;
  answer.has_history = trace.has_history;
  answer.is_peak_known = measured.is_peak_known;
  answer.began_at_peak = measured.began_at_peak;
  answer.contradicts = measured.contradicts;
  answer.is_snapshot = trace.original_format == TraceFormat::kPyTorchSnapshot;
  answer.has_only_refusals = trace.original_format == TraceFormat::kRmmDebugLog;
  answer.load = measured.load;
  answer.demand = measured.demand;
  if (measured.reserved.has_value()) answer.reserved_bytes = measured.reserved->reserved_bytes;
  const FrameNames names(trace);
  for (const RefusedRequest& refused : measured.demand.refused) {
    answer.refused_frames.push_back(names.Name(refused.tag));
    const TraceEvent& event = trace.events[static_cast<std::size_t>(refused.event)];
    answer.refused_streams.emplace_back(trace.stream_names[event.stream]);
  }
  answer.refusal = WorstRefusal(measured.demand);
  answer.event = MomentOf(measured, answer.refusal);
  answer.by_mark = PeaksByMark(trace, measured.alignment);
  answer.settings = trace.allocator_settings;
  answer.is_expandable = HasExpandableSegments(trace);
  if (answer.event < 0) return answer;
  absl::Status status;
  SideBySide({[&] { answer.forecast = ForecastPyTorch(trace); },
              [&] { status = Explain(measured, rules, answer); }});
  if (!status.ok()) return status;
  return answer;
}

nlohmann::ordered_json DeviceJson(const DeviceAnswer& answer) {
  nlohmann::ordered_json json = {{"device", answer.device},
                                 {"history", answer.has_history},
                                 {"peak_live_bytes", nullptr},
                                 {"reserved_bytes", nullptr},
                                 {"needs_bytes", answer.demand.needs_bytes},
                                 {"refused", RefusedJson(answer)}};
  if (answer.is_peak_known) json["peak_live_bytes"] = answer.demand.peak_live_bytes;
  if (answer.reserved_bytes.has_value()) json["reserved_bytes"] = *answer.reserved_bytes;
  json["event"] = answer.event;
  json["live_bytes"] = answer.live_bytes;
  json["top"] = PartsJson(answer.by_frame, "frame", kListed);
  json["categories"] = nlohmann::ordered_json::object();
  for (const NamedBytes& part : answer.by_category) {
    // Two rules may have the same name.
    json["categories"][part.name] =
        json["categories"].value(part.name, std::int64_t{0}) + part.bytes;
  }
  json["fragmentation_bytes"] = nullptr;
  if (answer.lost_bytes.has_value()) json["fragmentation_bytes"] = *answer.lost_bytes;
  AddFreeJson(answer.free, json);
  json["segments"] = SegmentsJson(answer);
  json["peak_live_bytes_by_mark"] = PartsJson(answer.by_mark, "mark", kListedMarks);
  json["pytorch"] = ForecastJson(answer.forecast);
  json["allocator_settings"] = nlohmann::ordered_json::object();
  for (const TraceSetting& setting : answer.settings)
    json["allocator_settings"][setting.name] = setting.value;
  return json;
}

}  // namespace tidepool::tool
