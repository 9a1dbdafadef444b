// SPDX-License-Identifier: Apache-2.0
// Splits lists, and counts through ranges.
#include "trace_replay/offload/sweep_values.h"

#include <functional>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "trace_replay/quantity.h"

namespace tidepool::tool {
namespace {

using Numbers = std::vector<std::int64_t>;
using NumberParser = std::function<absl::StatusOr<std::int64_t>(const std::string&)>;

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::CHexEscape(text), "'");
}

absl::Status TooMany(const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " has too many values, expected at most ", kMostSweepPoints));
}

// Adds the values of "FIRST..LAST/STEP".
absl::Status AddRange(const std::string& text, std::size_t dots, const NumberParser& parse,
                      std::optional<std::int64_t> default_step, Numbers& numbers) {
  const std::size_t slash = text.find('/', dots);
  if (slash == std::string::npos && !default_step.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " has no step, expected FIRST..LAST/STEP"));
  }
  const absl::StatusOr<std::int64_t> first = parse(text.substr(0, dots));
  if (!first.ok()) return first.status();
  const absl::StatusOr<std::int64_t> last = parse(text.substr(dots + 2, slash - dots - 2));
  if (!last.ok()) return last.status();
  const absl::StatusOr<std::int64_t> step =
      slash == std::string::npos ? *default_step : parse(text.substr(slash + 1));
  if (!step.ok()) return step.status();
  if (*step < 1 || *last < *first) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text),
                     " is an empty range, expected FIRST..LAST/STEP with a LAST of at least FIRST "
                     "and a STEP above 0"));
  }
  for (std::int64_t value = *first; true; value += *step) {
    if (numbers.size() == kMostSweepPoints) return TooMany(text);
    numbers.push_back(value);
    if (*last - value < *step) return absl::OkStatus();
  }
}

absl::StatusOr<SweepValues<std::int64_t>> ParseNumbers(const std::string& text,
                                                       const NumberParser& parse,
                                                       std::optional<std::int64_t> default_step) {
  SweepValues<std::int64_t> sweep;
  for (const auto item : absl::StrSplit(text, ',')) {
    const std::string one(item);
    const std::size_t dots = one.find("..");
    absl::Status status;
    if (dots != std::string::npos) {
      sweep.is_sweep = true;
      status = AddRange(one, dots, parse, default_step, sweep.values);
    } else {
      const absl::StatusOr<std::int64_t> value = parse(one);
      if (value.ok()) sweep.values.push_back(*value);
      status = value.status();
    }
    if (!status.ok()) return status;
    if (sweep.values.size() > kMostSweepPoints) return TooMany(text);
  }
  sweep.is_sweep = sweep.is_sweep || sweep.values.size() > 1;
  return sweep;
}

}  // namespace

absl::StatusOr<SweepValues<std::int64_t>> ParseSizes(const std::string& text) {
  return ParseNumbers(
      text, [](const std::string& one) { return ParseSize(one); }, std::nullopt);
}

absl::StatusOr<SweepValues<std::int64_t>> ParseWholes(const std::string& text,
                                                      const Range<std::int64_t>& range) {
  const NumberParser parse = [&](const std::string& one) -> absl::StatusOr<std::int64_t> {
    std::int64_t number = 0;
    if (absl::SimpleAtoi(one, &number) && number >= range.least && number <= range.most) {
      return number;
    }
    return absl::InvalidArgumentError(absl::StrCat(Quoted(one), ", expected a whole number from ",
                                                   range.least, " to ", range.most));
  };
  return ParseNumbers(text, parse, 1);
}

absl::StatusOr<SweepValues<std::string>> ParseNames(const std::string& text) {
  SweepValues<std::string> sweep;
  for (const auto item : absl::StrSplit(text, ',')) sweep.values.emplace_back(item);
  if (sweep.values.size() > kMostSweepPoints) return TooMany(text);
  sweep.is_sweep = sweep.values.size() > 1;
  return sweep;
}

}  // namespace tidepool::tool
