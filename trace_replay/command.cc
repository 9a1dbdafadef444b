// SPDX-License-Identifier: Apache-2.0
// Reading, and the head of answers, for all commands about traces.
#include "trace_replay/command.h"

#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/trace/trace_files.h"
#include "trace_replay/text.h"

namespace tidepool::tool {

absl::StatusOr<MeasuredTrace> ReadMeasured(const std::string& path, std::int64_t alignment,
                                           const ReadOptions& options) {
  absl::StatusOr<Trace> trace = ReadTrace(path, options);
  if (!trace.ok()) return trace.status();
  if (alignment == 0) alignment = trace->default_alignment;
  absl::StatusOr<TraceLoad> load = MeasureLoad(*trace, alignment);
  if (!load.ok()) return AboutFile(path, load.status());
  const std::optional<ReservedLoad> reserved = MeasureReserved(*trace);
  return MeasuredTrace{*std::move(trace), alignment, *load, reserved};
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
  return {{"format", TraceFormatName(measured.trace.format)},
          {"events", measured.trace.events.size()},
          {"allocations", measured.trace.allocations.size()},
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

void PrintTraceLine(const std::string& path, const MeasuredTrace& measured) {
  const Trace& trace = measured.trace;
  std::cout << absl::CHexEscape(path) << "\n  " << TraceFormatName(trace.format) << ", "
            << CountText(static_cast<std::int64_t>(trace.events.size())) << " events, "
            << CountText(static_cast<std::int64_t>(trace.allocations.size()))
            << " allocations, peak live " << SizeText(measured.load.peak_live_bytes) << "\n\n";
}

void PrintJson(const nlohmann::ordered_json& json) {
  // Terminals obey control characters beyond ASCII too, so all of those are escaped.
  std::cout << json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << '\n';
}

}  // namespace tidepool::tool
