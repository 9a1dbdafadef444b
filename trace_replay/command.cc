#include "trace_replay/command.h"

#include <iostream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/trace/trace_files.h"
#include "trace_replay/text.h"

namespace tidepool::tool {

CLI::Option* AddSizeOption(CLI::App& app, const std::string& name, std::int64_t& bytes,
                           const std::string& description) {
  return app
      .add_option_function<std::string>(
          name,
          [&bytes, name](const std::string& text) {
            absl::StatusOr<std::int64_t> parsed = ParseSize(text);
            if (!parsed.ok())
              throw CLI::ValidationError(name, std::string(parsed.status().message()));
            bytes = *parsed;
          },
          description)
      ->type_name("SIZE");
}

CLI::Option* AddAlignOption(CLI::App& app, std::int64_t& alignment) {
  return AddSizeOption(app, "--align", alignment,
                       "Alignment of sizes (default: the trace's own; 512 for a CSV, 1 for a "
                       "lifetime CSV)")
      ->check([](const std::string& text) -> std::string {
        const absl::StatusOr<std::int64_t> bytes = ParseSize(text);
        constexpr std::int64_t kLargest = std::int64_t{1} << 30;
        if (!bytes.ok()) return std::string(bytes.status().message());
        if (*bytes >= 1 && *bytes <= kLargest && (*bytes & (*bytes - 1)) == 0) return "";
        return absl::StrCat(*bytes, ", expected a power of two up to 1 GiB");
      });
}

CLI::Option* AddTraceDeviceOption(CLI::App& app, ReadOptions& options, DeviceAlias alias) {
  return app
      .add_option_function<std::int32_t>(
          alias == DeviceAlias::kFree ? "--trace-device,--device" : "--trace-device",
          [&options](const std::int32_t& device) { options.device = device; },
          "The device whose memory is asked about, where the trace tells of several; -1 is the "
          "host (default: the first GPU with events)")
      ->type_name("NUMBER");
}

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
  return absl::Status(status.code(),
                      absl::StrCat(absl::CHexEscape(path), ":0: ", status.message()));
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
  // In ASCII: what a terminal would act upon is not only below it.
  std::cout << json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << '\n';
}

}  // namespace tidepool::tool
