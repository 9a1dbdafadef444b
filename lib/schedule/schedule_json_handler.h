// SPDX-License-Identifier: Apache-2.0
// The handler of RapidJSON's events for schedules: each object knows its keys, and unknown keys are
// refused, so nesting is never deeper than in the format. A false result ends the reading; then
// status() gives the reason and line() the line.
#ifndef TIDEPOOL_LIB_SCHEDULE_SCHEDULE_JSON_HANDLER_H_
#define TIDEPOOL_LIB_SCHEDULE_SCHEDULE_JSON_HANDLER_H_

#include <rapidjson/reader.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "lib/io/json_input.h"
#include "lib/schedule/step_columns.h"
#include "tidepool/schedule/schedule_file.h"

namespace tidepool::schedule {

class ScheduleHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, ScheduleHandler> {
 public:
  explicit ScheduleHandler(io::JsonInput& input) : input_(input) {}

  bool Null() { return Take({Value::Type::kOther, "null"}); }
  bool Bool(bool value) { return Take({Value::Type::kBool, value ? "true" : "false"}); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return Take({Value::Type::kNumber, {text, size}});
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return Take({Value::Type::kText, {text, size}});
  }
  bool Key(const char* text, rapidjson::SizeType size, bool copy);
  bool StartObject();
  bool EndObject(rapidjson::SizeType members);
  bool StartArray();
  bool EndArray(rapidjson::SizeType elements);

  const absl::Status& status() const { return status_; }
  std::int64_t line() const { return line_; }
  ScheduleFile&& Take() { return std::move(file_); }

 private:
  enum class Place : std::uint8_t {
    kStart,
    kSchedule,
    kMachine,
    kDeviceList,
    kDevice,
    kLinkList,
    kLink,
    kHost,
    kPeers,
    kRoundList,
    kRound,
    kStepList,
    kStep,
  };
  struct Value {
    enum class Type : std::uint8_t { kText, kNumber, kBool, kOther };

    Type type = Type::kOther;
    std::string_view text;
  };
  struct Object;  // the name and the keys of one kind of object

  const Object& object() const;
  std::string Shown(const Value& value) const;
  bool Fail(const std::string& fault);
  bool FailValue(const std::string& shown, const std::string& expected);
  bool FailPlace(const std::string& shown);

  bool Take(const Value& value);
  bool TakeOfSchedule(const Value& value);
  bool TakeOfDevice(const Value& value);
  bool TakeOfLink(const Value& value);
  bool TakeOfHost(const Value& value);
  bool TakeOfPeers(const Value& value);
  bool TakeOfRound(const Value& value);
  bool TakeText(const Value& value, std::string* text);
  bool TakeWhole(const Value& value, std::int64_t* number);
  bool TakeCount(const Value& value, std::size_t* count);
  bool TakeNumber(const Value& value, double* number);
  bool TakeBool(const Value& value, bool* is);
  bool TakeFingerprint(const Value& value);
  bool TakeMemory(const Value& value);
  bool TakeSharing(const Value& value, LinkSharing* sharing);
  bool TakeNormalization(const Value& value);

  // Steps (schedule_json_steps.cc).
  bool TakeOfStep(const Value& value);
  bool TakeKind(const Value& value);
  bool TakeColumn(const Value& value, Column column);
  bool TakeDeviceColumn(const Value& value);
  bool TakeHint(const Value& value);
  bool EndStep();

  io::JsonInput& input_;
  ScheduleFile file_;
  Place place_ = Place::kStart;
  std::string_view key_;
  unsigned seen_[13] = {};  // bits of keys, by place
  Columns columns_ = {};    // of the current step
  std::size_t column_ = 0;  // the number of values of the current step so far
  std::int64_t line_ = 1;
  absl::Status status_;
};

}  // namespace tidepool::schedule

#endif  // TIDEPOOL_LIB_SCHEDULE_SCHEDULE_JSON_HANDLER_H_
