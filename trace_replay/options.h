// SPDX-License-Identifier: Apache-2.0
// Options of the command line by the kind of their value. Each names itself in its errors:
// "--pool: 'much' is not a size, expected ...".
#ifndef TIDEPOOL_TRACE_REPLAY_OPTIONS_H_
#define TIDEPOOL_TRACE_REPLAY_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tidepool/trace/trace_files.h"

namespace tidepool::tool {

// Values in the words of ParseSize, ParseRate and ParseSeconds (quantity.h).
CLI::Option* AddSizeOption(CLI::App& app, const std::string& name, std::int64_t& bytes,
                           const std::string& description);
CLI::Option* AddSizeOption(CLI::App& app, const std::string& name,
                           std::optional<std::int64_t>& bytes, const std::string& description);
CLI::Option* AddRateOption(CLI::App& app, const std::string& name, double& bytes_per_second,
                           const std::string& description);
CLI::Option* AddRateOption(CLI::App& app, const std::string& name,
                           std::optional<double>& bytes_per_second, const std::string& description);
CLI::Option* AddSecondsOption(CLI::App& app, const std::string& name, double& seconds,
                              const std::string& description);
CLI::Option* AddSecondsOption(CLI::App& app, const std::string& name,
                              std::optional<double>& seconds, const std::string& description);

// A closed range.
template <typename Number>
struct Range {
  Number least;
  Number most;
};
CLI::Option* AddWholeOption(CLI::App& app, const std::string& name, std::int64_t& number,
                            const Range<std::int64_t>& range, const std::string& description);
CLI::Option* AddWholeOption(CLI::App& app, const std::string& name, int& number,
                            const Range<int>& range, const std::string& description);
CLI::Option* AddWholeOption(CLI::App& app, const std::string& name, std::optional<int>& number,
                            const Range<int>& range, const std::string& description);
CLI::Option* AddWholeOption(CLI::App& app, const std::string& name, std::uint64_t& number,
                            const Range<std::uint64_t>& range, const std::string& description);
CLI::Option* AddNumberOption(CLI::App& app, const std::string& name, double& number,
                             const Range<double>& range, const std::string& description);

// The trace to read, the first argument of a command.
CLI::Option* AddTraceArgument(CLI::App& app, std::string& path);

// `--align`: 0 until it is given, then a power of two up to 1 GiB.
CLI::Option* AddAlignOption(CLI::App& app, std::int64_t& alignment);
// `--align` with another description, and another value until it is given.
CLI::Option* AddAlignOption(CLI::App& app, std::int64_t& alignment, const std::string& description);

// `--trace-device`, the number of a device in a trace of several. It is called `--device` too,
// unless the command has another option of that name.
enum class DeviceAlias : std::uint8_t { kTaken, kFree };
CLI::Option* AddTraceDeviceOption(CLI::App& app, ReadOptions& options,
                                  DeviceAlias alias = DeviceAlias::kFree);

// `--policy`, any number of times.
CLI::Option* AddPoliciesOption(CLI::App& app, std::vector<std::string>& policies);

CLI::Option* AddJsonOption(CLI::App& app, bool& json);

// Refuses `--json` if the output file, which holds a `subject` such as "plan", is standard output
// too.
absl::Status CheckJsonOutput(bool json, const std::string& output, const std::string& subject);

// Refuses a name of `--svg` that other programs would take for another kind of file. Devices such
// as standard output have any name.
absl::Status CheckDrawing(const std::string& path);

// Refuses the first of these options that was given: InvalidArgument, "--name: why". Options that
// the command does not have were not given.
absl::Status Refuse(const CLI::App& app, absl::Span<const char* const> names, std::string_view why);

// Lists command lines below the help of `app`.
void AddExamples(CLI::App& app, const std::vector<std::string>& examples);

}  // namespace tidepool::tool

#endif  // TIDEPOOL_TRACE_REPLAY_OPTIONS_H_
