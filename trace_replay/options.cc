// SPDX-License-Identifier: Apache-2.0
// Every option parses its text itself, because errors of CLI11 name neither units nor ranges.
#include "trace_replay/options.h"

#include <functional>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trace_replay/quantity.h"

namespace tidepool::tool {
namespace {

template <typename Value>
using Parser = std::function<absl::StatusOr<Value>(const std::string&)>;

// Errors name the option as the user knows it: the first of its long names.
std::string ShownName(const std::string& names) {
  const std::size_t dashes = names.find("--");
  return names.substr(dashes, names.find(',', dashes) - dashes);
}

template <typename Value, typename Target>
CLI::Option* AddParsedOption(CLI::App& app, const std::string& name, Target& target,
                             const Parser<Value>& parser, const std::string& type,
                             const std::string& description) {
  return app
      .add_option_function<std::string>(
          name,
          [&target, parser, name](const std::string& text) {
            const absl::StatusOr<Value> parsed = parser(text);
            if (!parsed.ok()) {
              throw CLI::ValidationError(ShownName(name), std::string(parsed.status().message()));
            }
            target = *parsed;
          },
          description)
      ->type_name(type);
}

template <typename Number>
absl::StatusOr<Number> ParseWhole(const std::string& text, const Range<Number>& range) {
  Number number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= range.least && number <= range.most) {
    return number;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(text),
                                                 "', expected a whole number from ", range.least,
                                                 " to ", range.most));
}

template <typename Number, typename Target>
CLI::Option* AddWholeTo(CLI::App& app, const std::string& name, Target& target,
                        const Range<Number>& range, const std::string& description) {
  return AddParsedOption<Number>(
      app, name, target, [range](const std::string& text) { return ParseWhole(text, range); }, "N",
      description);
}

template <typename Number>
CLI::Option* AddWhole(CLI::App& app, const std::string& name, Number& number,
                      const Range<Number>& range, const std::string& description) {
  return AddWholeTo(app, name, number, range, description)
      ->default_str(number >= range.least ? absl::StrCat(number) : "");
}

absl::StatusOr<std::int64_t> ParseAlignment(const std::string& text) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  absl::StatusOr<std::int64_t> bytes = ParseSize(text);
  if (!bytes.ok() || (*bytes >= 1 && *bytes <= kLargest && (*bytes & (*bytes - 1)) == 0)) {
    return bytes;
  }
  return absl::InvalidArgumentError(absl::StrCat(*bytes, ", expected a power of two up to 1 GiB"));
}

absl::StatusOr<std::int32_t> ParseDevice(const std::string& text) {
  std::int32_t device = 0;
  if (absl::SimpleAtoi(text, &device)) return device;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", absl::CHexEscape(text), "' is no device, expected a number, -1 for the host"));
}

}  // namespace

CLI::Option* AddSizeOption(CLI::App& app, const std::string& name, std::int64_t& bytes,
                           const std::string& description) {
  return AddParsedOption<std::int64_t>(app, name, bytes, ParseSize, "SIZE", description);
}

CLI::Option* AddSizeOption(CLI::App& app, const std::string& name,
                           std::optional<std::int64_t>& bytes, const std::string& description) {
  return AddParsedOption<std::int64_t>(app, name, bytes, ParseSize, "SIZE", description);
}

CLI::Option* AddRateOption(CLI::App& app, const std::string& name, double& bytes_per_second,
                           const std::string& description) {
  return AddParsedOption<double>(app, name, bytes_per_second, ParseRate, "RATE", description);
}

CLI::Option* AddRateOption(CLI::App& app, const std::string& name,
                           std::optional<double>& bytes_per_second,
                           const std::string& description) {
  return AddParsedOption<double>(app, name, bytes_per_second, ParseRate, "RATE", description);
}

CLI::Option* AddSecondsOption(CLI::App& app, const std::string& name, double& seconds,
                              const std::string& description) {
  return AddParsedOption<double>(app, name, seconds, ParseSeconds, "TIME", description);
}

CLI::Option* AddSecondsOption(CLI::App& app, const std::string& name,
                              std::optional<double>& seconds, const std::string& description) {
  return AddParsedOption<double>(app, name, seconds, ParseSeconds, "TIME", description);
}

CLI::Option* AddWholeOption(CLI::App& app, const std::string& name, std::int64_t& number,
                            const Range<std::int64_t>& range, const std::string& description) {
  return AddWhole(app, name, number, range, description);
}

CLI::Option* AddWholeOption(CLI::App& app, const std::string& name, int& number,
                            const Range<int>& range, const std::string& description) {
  return AddWhole(app, name, number, range, description);
}

CLI::Option* AddWholeOption(CLI::App& app, const std::string& name, std::optional<int>& number,
                            const Range<int>& range, const std::string& description) {
  return AddWholeTo(app, name, number, range, description);
}

CLI::Option* AddWholeOption(CLI::App& app, const std::string& name, std::uint64_t& number,
                            const Range<std::uint64_t>& range, const std::string& description) {
  return AddWhole(app, name, number, range, description);
}

CLI::Option* AddNumberOption(CLI::App& app, const std::string& name, double& number,
                             const Range<double>& range, const std::string& description) {
  const auto parse = [range](const std::string& text) -> absl::StatusOr<double> {
    double parsed = 0;
    if (absl::SimpleAtod(text, &parsed) && parsed >= range.least && parsed <= range.most) {
      return parsed;
    }
    return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(text),
                                                   "', expected a number from ", range.least,
                                                   " to ", range.most));
  };
  return AddParsedOption<double>(app, name, number, parse, "NUMBER", description)
      ->default_str(absl::StrCat(number));
}

CLI::Option* AddTraceArgument(CLI::App& app, std::string& path) {
  return app
      .add_option(
          "TRACE", path,
          "The trace file: any format, recognised by its content, compressed by gzip or not")
      ->required();
}

CLI::Option* AddAlignOption(CLI::App& app, std::int64_t& alignment) {
  return AddAlignOption(app, alignment,
                        "Round each allocation up to a multiple of this power of two (default: the "
                        "alignment in the trace; 512 for a CSV, 1 for a lifetime CSV)");
}

CLI::Option* AddAlignOption(CLI::App& app, std::int64_t& alignment,
                            const std::string& description) {
  return AddParsedOption<std::int64_t>(app, "--align", alignment, ParseAlignment, "SIZE",
                                       description);
}

CLI::Option* AddTraceDeviceOption(CLI::App& app, ReadOptions& options, DeviceAlias alias) {
  return AddParsedOption<std::int32_t>(
      app, alias == DeviceAlias::kFree ? "--device,--trace-device" : "--trace-device",
      options.device, ParseDevice, "N",
      "The device to look at in a trace of several; -1 is the host (default: the first GPU that "
      "refused a request, else the one with the most memory)");
}

CLI::Option* AddPoliciesOption(CLI::App& app, std::vector<std::string>& policies) {
  return app
      .add_option("--policy", policies,
                  "A placement policy; may be given several times (default: all policies)")
      ->allow_extra_args(false)
      ->type_name("NAME");
}

CLI::Option* AddJsonOption(CLI::App& app, bool& json) {
  return app.add_flag("--json", json, "Print one JSON object instead of tables");
}

absl::Status CheckDrawing(const std::string& path) {
  if (path.empty() || absl::EndsWith(path, ".svg") || absl::StartsWith(path, "/dev/")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--svg: ", absl::CHexEscape(path), ", expected a name that ends in .svg"));
}

absl::Status CheckJsonOutput(bool json, const std::string& output, const std::string& subject) {
  if (!json || output != "/dev/stdout") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--json: the ", subject, " goes to standard output, expected another file for it"));
}

absl::Status Refuse(const CLI::App& app, absl::Span<const char* const> names,
                    std::string_view why) {
  for (const char* const name : names) {
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr || option->count() == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", std::string(why)));
  }
  return absl::OkStatus();
}

void AddExamples(CLI::App& app, const std::vector<std::string>& examples) {
  app.footer(absl::StrCat("Examples:\n  ", absl::StrJoin(examples, "\n  ")));
}

}  // namespace tidepool::tool
