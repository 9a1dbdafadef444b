// SPDX-License-Identifier: Apache-2.0
// Steps of a file: rows with the name of the kind, and its columns.
#include <cmath>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/io/json_number.h"
#include "lib/schedule/schedule_json_handler.h"

namespace tidepool::schedule {
namespace {

// Returns whether the kind has the name; `*kind` is changed only then.
bool ParseKind(std::string_view name, StepKind* kind) {
  for (int i = 0; i <= static_cast<int>(StepKind::kAdd); ++i) {
    if (name != StepKindName(static_cast<StepKind>(i))) continue;
    *kind = static_cast<StepKind>(i);
    return true;
  }
  return false;
}

}  // namespace

bool ScheduleHandler::TakeOfStep(const Value& value) {
  if (column_ == 0) return TakeKind(value);
  const std::size_t at = column_ - 1;
  const Column column = at < columns_.size() ? columns_[at] : Column::kNoColumn;
  if (column == Column::kNoColumn) {
    return Fail(absl::StrCat(Shown(value), " in a step of kind ",
                             std::string(StepKindName(file_.schedule.steps.back().kind)),
                             ", expected at most ", at, " values after the kind"));
  }
  ++column_;
  if (TakeColumn(value, column)) return true;
  if (!status_.ok()) return false;
  const bool is_signed =
      column == Column::kBegin || column == Column::kEnd || column == Column::kOffset;
  return Fail(absl::StrCat(kColumnNames[static_cast<std::size_t>(column)], " of a step is ",
                           Shown(value), ", expected ",
                           column == Column::kHint      ? "'resident' or 'offloadable'"
                           : column == Column::kDensity ? "a number"
                           : column == Column::kDevice  ? "a whole number, or 'host'"
                           : is_signed                  ? "a whole number, or -1"
                                                        : "a whole number"));
}

bool ScheduleHandler::TakeKind(const Value& value) {
  StepKind& kind = file_.schedule.steps.back().kind;
  if (value.type != Value::Type::kText || !ParseKind(value.text, &kind)) {
    return Fail(absl::StrCat(Shown(value), " begins a step, expected allocate, free, run, ",
                             "offload, await, prefetch, synchronize, drop, receive or add"));
  }
  columns_ = ColumnsOf(kind);
  column_ = 1;
  return true;
}

bool ScheduleHandler::TakeDeviceColumn(const Value& value) {
  ScheduleStep& step = file_.schedule.steps.back();
  std::int64_t number = 0;
  if (value.type == Value::Type::kText && value.text == "host") {
    step.device = kHostDevice;
    return true;
  }
  if (value.type != Value::Type::kNumber || !io::ParseWholeNumber(value.text, &number))
    return false;
  step.device = static_cast<std::size_t>(number);
  return number >= 0;
}

bool ScheduleHandler::TakeHint(const Value& value) {
  const bool is_offloadable = value.text == "offloadable";
  if (value.type != Value::Type::kText || (!is_offloadable && value.text != "resident")) {
    return false;
  }
  file_.schedule.steps.back().hint = is_offloadable ? Hint::kOffloadable : Hint::kResident;
  return true;
}

bool ScheduleHandler::TakeColumn(const Value& value, Column column) {
  ScheduleStep& step = file_.schedule.steps.back();
  if (column == Column::kDevice) return TakeDeviceColumn(value);
  if (column == Column::kHint) return TakeHint(value);
  if (value.type != Value::Type::kNumber) return false;
  if (column == Column::kDensity) {
    const bool is_number = absl::SimpleAtod({value.text.data(), value.text.size()}, &step.density);
    return is_number && std::isfinite(step.density);
  }
  std::int64_t number = 0;
  if (!io::ParseWholeNumber(value.text, &number)) return false;
  if (column == Column::kIndex || column == Column::kAlgorithm || column == Column::kStream ||
      column == Column::kSource) {
    (column == Column::kIndex    ? step.index
     : column == Column::kStream ? step.stream
     : column == Column::kSource ? step.source
                                 : step.algorithm) = static_cast<std::size_t>(number);
    return number >= 0;
  }
  (column == Column::kBegin ? step.begin
   : column == Column::kEnd ? step.end
                            : step.offset) = number;
  return number >= -1;
}

bool ScheduleHandler::EndStep() {
  const bool has_number = column_ >= 2 || (column_ == 1 && columns_[0] == Column::kNoColumn);
  if (!has_number) return Fail("a step is cut off, expected its kind and its number");
  place_ = Place::kStepList;
  return true;
}

}  // namespace tidepool::schedule
