// SPDX-License-Identifier: Apache-2.0
// RMM's debug log: lines "[pid][HH:MM:SS:micros][level] message". Of the messages only refused
// requests are of use: "[A][Stream 0x1][Upstream 4096B][FAILURE maximum pool size exceeded]".
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/csv.h"
#include "lib/base/text/quote.h"
#include "lib/trace/profiles/profiles.h"
#include "lib/trace/profiles/whole_file.h"

namespace tidepool::profiles {
namespace {

// Takes "[text]" from the front of `line`; no value without one.
bool TakeBracketed(std::string_view* line, std::string_view* text) {
  if (line->substr(0, 1) != "[") return false;
  const std::size_t end = line->find(']');
  if (end == std::string_view::npos) return false;
  *text = line->substr(1, end - 1);
  line->remove_prefix(end + 1);
  return true;
}

// Returns the nanoseconds of "16:47:00:093566"; 0 for any other text.
std::int64_t TimeOf(std::string_view text) {
  constexpr std::int64_t kMostHours = 1'000'000;
  std::int64_t parts[4] = {};
  std::size_t count = 0;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), absl::ByAnyChar(":."))) {
    if (count == 4 || !absl::SimpleAtoi(part, &parts[count])) return 0;
    if (parts[count] < 0 || parts[count] >= kMostHours) return 0;
    ++count;
  }
  return ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1'000'000'000 + parts[3] * 1000;
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

struct Refusal {
  std::string_view process;
  std::string_view stream;
  std::string_view reason;
  std::int64_t time = 0;
  std::int64_t bytes = 0;
};

bool ParseRefusal(std::string_view line, Refusal* refusal) {
  constexpr std::string_view kStream = "Stream ";
  constexpr std::string_view kUpstream = "Upstream ";
  constexpr std::string_view kFailure = "FAILURE ";
  std::string_view time;
  std::string_view level;
  if (!TakeBracketed(&line, &refusal->process) || !TakeBracketed(&line, &time) ||
      !TakeBracketed(&line, &level)) {
    return false;
  }
  line = Trimmed(line);
  std::string_view action;
  std::string_view stream;
  std::string_view bytes;
  std::string_view reason;
  if (!TakeBracketed(&line, &action) || !TakeBracketed(&line, &stream) ||
      !TakeBracketed(&line, &bytes) || !TakeBracketed(&line, &reason)) {
    return false;
  }
  if (action != "A" || !stream.starts_with(kStream) || !bytes.starts_with(kUpstream) ||
      !bytes.ends_with("B") || !reason.starts_with(kFailure)) {
    return false;
  }
  bytes = bytes.substr(kUpstream.size(), bytes.size() - kUpstream.size() - 1);
  refusal->process = Trimmed(refusal->process);
  refusal->stream = stream.substr(kStream.size());
  refusal->reason = reason.substr(kFailure.size());
  refusal->time = TimeOf(time);
  return io::ParseInteger(bytes, &refusal->bytes) && refusal->bytes >= 0;
}

}  // namespace

bool IsRmmDebugLog(std::string_view beginning) {
  if (beginning.substr(0, 1) != "[") return false;
  const std::size_t digit = beginning.find_first_not_of(' ', 1);
  if (digit == std::string_view::npos) return false;
  const std::size_t end = beginning.find_first_not_of("0123456789", digit);
  if (end == digit) return false;
  return end == std::string_view::npos ||
         std::string_view("][").starts_with(beginning.substr(end, 2));
}

absl::StatusOr<Trace> ReadRmmDebugLog(io::ByteSource& source, const std::string& name,
                                      const ReadOptions& /*options*/) {
  const absl::StatusOr<std::string> text = WholeFile(source);
  if (!text.ok()) return text::AboutFile(name, text.status());
  TraceBuilder builder(TraceFormat::kRmmDebugLog);
  builder.SetHistory(false);
  std::int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    builder.SetLine(++number);
    Refusal refusal;
    if (!ParseRefusal({line.data(), line.size()}, &refusal)) continue;
    builder.SetThread(refusal.process);
    absl::Status status =
        builder.Failure(refusal.bytes, Hint::kResident, refusal.stream, refusal.time);
    if (!status.ok()) return text::AboutFile(name, status);
  }
  Trace trace = builder.Build();
  if (!trace.failures.empty()) return trace;
  return text::AboutFile(
      name, absl::InvalidArgumentError("RMM's debug log without a refused request: it has no other "
                                       "requests. RMM's logging_resource_adaptor writes the CSV "
                                       "log that tidepool reads"));
}

}  // namespace tidepool::profiles
