// SPDX-License-Identifier: Apache-2.0
// Profiler events: one pass of RapidJSON's event reader. Keys come in any order, so the few
// relevant values of an event are kept, and its end decides the event's kind.
#include "lib/trace/chrome/profiler_events.h"

#include <rapidjson/reader.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/io/json_events.h"
#include "lib/base/io/json_number.h"
#include "lib/base/text/quote.h"

namespace tidepool::chrome {
namespace {

constexpr int kDeepestNesting = 1000;
constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max();

// Relevant values of an event or of a stack frame.
enum class Field : std::uint8_t {
  kPhase,
  kCategory,
  kName,
  kProcess,
  kThread,
  kTime,
  kDuration,
  kStack,
  kArguments,
  // Arguments of an event.
  kBytes,
  kAddress,
  kDeviceId,
  kDeviceType,
  kAllocated,
  kReserved,
  kStream,
  kHint,
  kId,
  kThreadName,
  // Stack frame.
  kFrameName,
  kFrameFile,
  kFrameLine,
  kFrameCaller,
  kCount,
  kUnknown = kCount,
};
constexpr std::size_t kFields = static_cast<std::size_t>(Field::kCount);

struct FieldName {
  Field field;
  std::string_view name;
};
constexpr auto kEventKeys = std::to_array<FieldName>({{Field::kPhase, "ph"},
                                                      {Field::kCategory, "cat"},
                                                      {Field::kName, "name"},
                                                      {Field::kProcess, "pid"},
                                                      {Field::kThread, "tid"},
                                                      {Field::kTime, "ts"},
                                                      {Field::kDuration, "dur"},
                                                      {Field::kStack, "sf"},
                                                      {Field::kArguments, "args"}});
constexpr auto kArgumentKeys = std::to_array<FieldName>({{Field::kBytes, "Bytes"},
                                                         {Field::kAddress, "Addr"},
                                                         {Field::kDeviceId, "Device Id"},
                                                         {Field::kDeviceType, "Device Type"},
                                                         {Field::kAllocated, "Total Allocated"},
                                                         {Field::kReserved, "Total Reserved"},
                                                         {Field::kStream, "Stream"},
                                                         {Field::kHint, "Hint"},
                                                         {Field::kId, "Id"},
                                                         {Field::kThreadName, "name"}});
constexpr auto kFrameKeys = std::to_array<FieldName>({{Field::kFrameName, "name"},
                                                      {Field::kFrameFile, "file"},
                                                      {Field::kFrameLine, "line"},
                                                      {Field::kFrameCaller, "parent"}});

template <std::size_t kSize>
Field FieldCalled(const std::array<FieldName, kSize>& keys, std::string_view name) {
  for (const FieldName& key : keys) {
    if (key.name == name) return key.field;
  }
  return Field::kUnknown;
}

std::string_view NameOf(Field field) {
  for (const auto& keys : {absl::MakeConstSpan(kEventKeys), absl::MakeConstSpan(kArgumentKeys),
                           absl::MakeConstSpan(kFrameKeys)}) {
    for (const FieldName& key : keys) {
      if (key.field == field) return key.name;
    }
  }
  return "";
}

enum class Type : std::uint8_t { kText, kNumber, kObject, kOther };

// Known values of one event or frame.
class Values {
 public:
  void Clear() { there_ = twice_ = 0; }

  void Set(Field field, Type type, std::string_view text) {
    if (field == Field::kUnknown) return;
    const auto at = static_cast<std::size_t>(field);
    (Has(field) ? twice_ : there_) |= 1U << at;
    types_[at] = type;
    texts_[at].assign(text);
  }

  bool Has(Field field) const { return (there_ >> static_cast<unsigned>(field) & 1) != 0; }
  bool Is(Field field, Type type) const {
    return Has(field) && types_[static_cast<std::size_t>(field)] == type;
  }
  bool IsText(Field field, std::string_view text) const {
    return Is(field, Type::kText) && Text(field) == text;
  }
  std::string_view Text(Field field) const { return texts_[static_cast<std::size_t>(field)]; }

  // Returns a text or a number; "" if the field is missing or anything else.
  std::string_view Label(Field field) const {
    return Is(field, Type::kText) || Is(field, Type::kNumber) ? Text(field) : "";
  }

  std::optional<Field> Twice() const {
    for (std::size_t i = 0; i < kFields; ++i) {
      if ((twice_ >> i & 1) != 0) return static_cast<Field>(i);
    }
    return std::nullopt;
  }

  // Returns the value as errors show it.
  std::string Shown(Field field) const {
    if (!Has(field)) return "missing";
    switch (types_[static_cast<std::size_t>(field)]) {
      case Type::kText:
        return absl::StrCat("the text ", text::Quoted(Text(field)));
      case Type::kNumber:
        return std::string(Text(field).substr(0, 40));
      case Type::kObject:
        return "an object";
      case Type::kOther:
        break;
    }
    return "no text and no number";
  }

 private:
  std::uint32_t there_ = 0;
  std::uint32_t twice_ = 0;
  std::array<Type, kFields> types_ = {};
  std::array<std::string, kFields> texts_;
};
static_assert(kFields <= 32);

// Converts events, and drops those without a use for the trace.
class EventTaker {
 public:
  // Errors do not name file and line.
  absl::Status TakeEvent(const Values& values);
  absl::Status TakeFrame(std::string_view id, const Values& values);

  absl::StatusOr<ProfilerEvents> Finish();

 private:
  using Kind = ProfilerEvent::Kind;

  absl::Status TakeSpan(const Values& values);
  absl::Status TakeInstant(const Values& values, Kind kind);
  absl::Status TakeDevice(const Values& values, ProfilerEvent* event);
  absl::Status TakeSize(const Values& values, ProfilerEvent* event);
  absl::Status TakeTotals(const Values& values, ProfilerEvent* event);
  absl::Status TakeExtras(const Values& values, ProfilerEvent* event);
  absl::Status TakeMark(const Values& values, Kind kind);
  void AddMark(const Values& values, Kind kind, std::int64_t time);
  void NameThread(const Values& values);
  std::uint32_t Thread(const Values& values);

  ProfilerEvents result_;
  io::TextNumbers thread_keys_;
  std::string thread_key_;
  std::optional<std::int64_t> device_type_;  // device type of all events that are not of the host
};

absl::Status Expected(const Values& values, Field field, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", std::string(NameOf(field)), "' is ",
                                                 values.Shown(field), ", expected ",
                                                 std::string(what)));
}

absl::Status CheckTwice(const Values& values) {
  const std::optional<Field> twice = values.Twice();
  if (!twice) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(NameOf(*twice)), "' is in an event twice"));
}

absl::Status GetTime(const Values& values, Field field, std::int64_t* time) {
  if (values.Is(field, Type::kNumber) && io::ParseThousandths(values.Text(field), kLatest, time)) {
    return absl::OkStatus();
  }
  return Expected(values, field, "a number of microseconds below 2^63 nanoseconds");
}

absl::Status GetWhole(const Values& values, Field field, std::int64_t least, std::int64_t most,
                      std::int64_t* number) {
  if (values.Is(field, Type::kNumber) && io::ParseWholeNumber(values.Text(field), number) &&
      *number >= least && *number <= most) {
    return absl::OkStatus();
  }
  return Expected(values, field, absl::StrCat("a whole number from ", least, " to ", most));
}

absl::Status EventTaker::TakeEvent(const Values& values) {
  if (!values.Is(Field::kPhase, Type::kText)) return absl::OkStatus();
  const std::string_view phase = values.Text(Field::kPhase);
  if (phase.size() != 1) return absl::OkStatus();
  const bool is_annotation = values.IsText(Field::kCategory, "user_annotation");
  switch (phase[0]) {
    case 'X':
      return TakeSpan(values);
    case 'i':
    case 'I':
      if (values.IsText(Field::kName, "[memory]")) return TakeInstant(values, Kind::kMemory);
      if (values.IsText(Field::kName, "[OutOfMemory]")) return TakeInstant(values, Kind::kFailure);
      return is_annotation ? TakeMark(values, Kind::kMark) : absl::OkStatus();
    case 'b':
      return is_annotation ? TakeMark(values, Kind::kMark) : absl::OkStatus();
    case 'e':
      return is_annotation ? TakeMark(values, Kind::kMarkEnd) : absl::OkStatus();
    case 'M':
      if (values.IsText(Field::kName, "thread_name")) NameThread(values);
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

absl::Status EventTaker::TakeSpan(const Values& values) {
  const bool is_annotation = values.IsText(Field::kCategory, "user_annotation");
  if (!is_annotation && !values.IsText(Field::kCategory, "cpu_op") &&
      !values.IsText(Field::kCategory, "python_function") &&
      !values.IsText(Field::kCategory, "Operator")) {
    return absl::OkStatus();
  }
  absl::Status status = CheckTwice(values);
  std::int64_t begin = 0;
  std::int64_t duration = 0;
  if (status.ok()) status = GetTime(values, Field::kTime, &begin);
  if (status.ok()) status = GetTime(values, Field::kDuration, &duration);
  if (!status.ok()) return status;
  if (!values.Is(Field::kName, Type::kText)) return Expected(values, Field::kName, "a text");
  // Profilers write an endless or negative duration for spans without an end.
  duration = std::max<std::int64_t>(0, duration);
  if (begin > 0) duration = std::min(duration, kLatest - begin);
  if (is_annotation) {
    AddMark(values, Kind::kMark, begin);
    AddMark(values, Kind::kMarkEnd, begin + duration);
  }
  if (duration == 0) return absl::OkStatus();
  result_.spans.Add(Thread(values), result_.texts.Number(values.Text(Field::kName)), begin,
                    duration);
  return absl::OkStatus();
}

absl::Status EventTaker::TakeInstant(const Values& values, Kind kind) {
  ProfilerEvent event;
  event.kind = kind;
  absl::Status status = CheckTwice(values);
  if (status.ok()) status = GetTime(values, Field::kTime, &event.time);
  if (status.ok() && !values.Is(Field::kArguments, Type::kObject)) {
    status = Expected(values, Field::kArguments, "an object with Bytes, Addr and the device");
  }
  if (status.ok()) status = TakeDevice(values, &event);
  if (status.ok()) status = TakeSize(values, &event);
  if (status.ok()) status = TakeTotals(values, &event);
  if (status.ok()) status = TakeExtras(values, &event);
  if (!status.ok()) return status;
  event.thread = Thread(values);
  result_.devices.insert(event.device);
  if (kind == Kind::kFailure) result_.refusing_devices.insert(event.device);
  result_.events.push_back(event);
  return absl::OkStatus();
}

absl::Status EventTaker::TakeDevice(const Values& values, ProfilerEvent* event) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t type = 0;
  std::int64_t id = 0;
  absl::Status status = GetWhole(values, Field::kDeviceType, 0, kMost, &type);
  if (!status.ok()) return status;
  status = GetWhole(values, Field::kDeviceId, type == 0 ? -1 : 0, kMost, &id);
  if (!status.ok()) return status;
  event->device = type == 0 ? -1 : static_cast<std::int32_t>(id);
  if (type == 0) return absl::OkStatus();
  if (!device_type_) device_type_ = type;
  if (*device_type_ == type) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'Device Type' is ", type, ", expected ", *device_type_,
                   " as before: devices of two kinds with the same numbers cannot be told apart"));
}

absl::Status EventTaker::TakeSize(const Values& values, ProfilerEvent* event) {
  const bool is_failure = event->kind == Kind::kFailure;
  absl::Status status = GetWhole(values, Field::kBytes, is_failure ? 0 : -kMaxRequestBytes,
                                 is_failure ? kLatest : kMaxRequestBytes, &event->bytes);
  if (!status.ok() || is_failure) return status;
  if (values.Is(Field::kAddress, Type::kNumber) &&
      io::ParseAddressNumber(values.Text(Field::kAddress), &event->subject)) {
    return absl::OkStatus();
  }
  return Expected(values, Field::kAddress,
                  "a whole number of 64 bits (old versions of PyTorch do not write it)");
}

// Takes the running totals; the profiler writes a negative one when it does not know it.
absl::Status EventTaker::TakeTotals(const Values& values, ProfilerEvent* event) {
  for (const auto& [field, total] : {std::pair(Field::kAllocated, &event->allocated),
                                     std::pair(Field::kReserved, &event->reserved)}) {
    if (!values.Has(field)) continue;
    absl::Status status =
        GetWhole(values, field, std::numeric_limits<std::int64_t>::min(), kLatest, total);
    if (!status.ok()) return status;
    *total = std::max(*total, ProfilerEvent::kUnknownBytes);
  }
  return absl::OkStatus();
}

// Takes the fields that only tidepool's own writer adds.
absl::Status EventTaker::TakeExtras(const Values& values, ProfilerEvent* event) {
  for (const Field field : {Field::kStream, Field::kId, Field::kHint}) {
    if (values.Has(field) && !values.Is(field, Type::kText)) {
      return Expected(values, field, "a text");
    }
  }
  event->stream = result_.texts.Number(values.Label(Field::kStream));
  if (values.Has(Field::kHint)) {
    if (!values.IsText(Field::kHint, "high")) return Expected(values, Field::kHint, "'high'");
    event->hint = Hint::kOffloadable;
  }
  if (values.Has(Field::kId) && event->kind == Kind::kMemory) {
    event->subject = result_.texts.Number(values.Text(Field::kId));
    event->has_text_id = true;
  }
  if (values.Has(Field::kStack)) {
    event->stack = result_.stack_ids.Number(values.Label(Field::kStack)) + 1;
  }
  return absl::OkStatus();
}

absl::Status EventTaker::TakeMark(const Values& values, Kind kind) {
  std::int64_t time = 0;
  absl::Status status = CheckTwice(values);
  if (status.ok()) status = GetTime(values, Field::kTime, &time);
  if (!status.ok()) return status;
  if (!values.Is(Field::kName, Type::kText)) return Expected(values, Field::kName, "a text");
  AddMark(values, kind, time);
  return absl::OkStatus();
}

void EventTaker::AddMark(const Values& values, Kind kind, std::int64_t time) {
  ProfilerEvent event;
  event.kind = kind;
  event.time = time;
  event.thread = Thread(values);
  event.subject = result_.texts.Number(values.Text(Field::kName));
  result_.events.push_back(event);
}

void EventTaker::NameThread(const Values& values) {
  if (!values.Is(Field::kThreadName, Type::kText)) return;
  result_.threads[Thread(values)].name = values.Text(Field::kThreadName);
}

std::uint32_t EventTaker::Thread(const Values& values) {
  const std::string_view process = values.Label(Field::kProcess);
  const std::string_view thread = values.Label(Field::kThread);
  thread_key_.assign(process);
  thread_key_ += '\0';
  thread_key_ += thread;
  const std::uint32_t number = thread_keys_.Number(thread_key_);
  if (number == result_.threads.size()) {
    result_.threads.push_back({result_.texts.Number(process), std::string(thread)});
  }
  return number;
}

absl::Status EventTaker::TakeFrame(std::string_view id, const Values& values) {
  if (absl::Status status = CheckTwice(values); !status.ok()) return status;
  ProfilerFrame frame;
  frame.name = values.Label(Field::kFrameName);
  frame.file = values.Label(Field::kFrameFile);
  frame.caller = values.Label(Field::kFrameCaller);
  if (values.Has(Field::kFrameLine)) {
    std::int64_t line = 0;
    absl::Status status = GetWhole(values, Field::kFrameLine, 0, UINT32_MAX, &line);
    if (!status.ok()) return status;
    frame.line = static_cast<std::uint32_t>(line);
  }
  result_.frames.insert_or_assign(std::string(id), std::move(frame));
  return absl::OkStatus();
}

absl::StatusOr<ProfilerEvents> EventTaker::Finish() { return std::move(result_); }

// Receives the events of RapidJSON's reader, and tracks its position in the file.
class Handler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  explicit Handler(io::JsonInput& input) : input_(input) {}

  bool Null() { return Value(Type::kOther, ""); }
  bool Bool(bool /*value*/) { return Value(Type::kOther, ""); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return Value(Type::kNumber, {text, size});
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return Value(Type::kText, {text, size});
  }
  bool Key(const char* text, rapidjson::SizeType size, bool copy);
  bool StartObject();
  bool EndObject(rapidjson::SizeType members);
  bool StartArray();
  bool EndArray(rapidjson::SizeType elements);

  bool has_events() const { return has_events_; }
  const absl::Status& status() const { return status_; }
  std::int64_t line() const { return line_; }
  EventTaker& taker() { return taker_; }

 private:
  enum class Level : std::uint8_t {
    kStart,
    kFile,  // the outermost object
    kEvents,
    kEvent,
    kArguments,
    kFrames,
    kFrame,
    kElsewhere,
  };

  bool Value(Type type, std::string_view text);
  bool Descend(bool is_object);
  bool DescendInFile(bool is_object);
  void DescendInList(bool is_object);
  void DescendInValues(bool is_object);
  bool Ascend();
  void EnterElsewhere();
  bool Check(const absl::Status& status);
  bool Fail(std::string_view what);
  void StartEvent();

  io::JsonInput& input_;
  EventTaker taker_;
  Values values_;
  std::string key_;                // last key in the outermost object, or the id of a frame
  Field field_ = Field::kUnknown;  // last key in an event or a frame
  Level level_ = Level::kStart;
  Level back_to_ = Level::kStart;  // position to return to after kElsewhere
  int depth_ = 0;
  int elsewhere_ = 0;  // depth at which kElsewhere began
  bool has_events_ = false;
  bool is_bare_ = false;   // the file is an array of events
  std::int64_t line_ = 1;  // line of the event or of the error
  absl::Status status_;
};

bool Handler::Fail(std::string_view what) {
  status_ = absl::InvalidArgumentError({what.data(), what.size()});
  return false;
}

bool Handler::Check(const absl::Status& status) {
  status_ = status;
  return status.ok();
}

bool Handler::Value(Type type, std::string_view text) {
  input_.SawToken();
  switch (level_) {
    case Level::kEvent:
    case Level::kArguments:
    case Level::kFrame:
      values_.Set(field_, type, text);
      return true;
    case Level::kStart:
      line_ = input_.line();
      return Fail("not a trace, expected an object with traceEvents or an array of events");
    case Level::kFile:
      if (key_ != "traceEvents") return true;
      line_ = input_.line();
      return Fail("traceEvents is not an array, expected an array of events");
    default:
      return true;
  }
}

bool Handler::Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view name(text, size);
  switch (level_) {
    case Level::kFile:
    case Level::kFrames:
      key_.assign(name);
      return true;
    case Level::kEvent:
      field_ = FieldCalled(kEventKeys, name);
      return true;
    case Level::kArguments:
      field_ = FieldCalled(kArgumentKeys, name);
      return true;
    case Level::kFrame:
      field_ = FieldCalled(kFrameKeys, name);
      return true;
    default:
      return true;
  }
}

void Handler::EnterElsewhere() {
  back_to_ = level_;
  level_ = Level::kElsewhere;
  elsewhere_ = depth_;
}

void Handler::StartEvent() {
  values_.Clear();
  line_ = input_.line();
}

bool Handler::Descend(bool is_object) {
  input_.SawToken();
  if (++depth_ > kDeepestNesting) {
    line_ = input_.line();
    return Fail(
        absl::StrCat("values nested too deep, expected at most ", kDeepestNesting, " levels"));
  }
  switch (level_) {
    case Level::kStart:
      is_bare_ = has_events_ = !is_object;
      level_ = is_object ? Level::kFile : Level::kEvents;
      return true;
    case Level::kFile:
      return DescendInFile(is_object);
    case Level::kEvents:
    case Level::kFrames:
      DescendInList(is_object);
      return true;
    case Level::kEvent:
    case Level::kArguments:
    case Level::kFrame:
      DescendInValues(is_object);
      return true;
    case Level::kElsewhere:
      return true;
  }
  return true;
}

bool Handler::DescendInFile(bool is_object) {
  if (key_ == "traceEvents") {
    line_ = input_.line();
    if (is_object) return Fail("traceEvents is an object, expected an array of events");
    if (has_events_) return Fail("traceEvents is there twice");
    has_events_ = true;
    level_ = Level::kEvents;
  } else if (key_ == "stackFrames" && is_object) {
    level_ = Level::kFrames;
  } else {
    EnterElsewhere();
  }
  return true;
}

void Handler::DescendInList(bool is_object) {
  if (!is_object) return EnterElsewhere();
  StartEvent();
  level_ = level_ == Level::kEvents ? Level::kEvent : Level::kFrame;
}

void Handler::DescendInValues(bool is_object) {
  values_.Set(field_, is_object ? Type::kObject : Type::kOther, "");
  if (level_ == Level::kEvent && is_object && field_ == Field::kArguments) {
    level_ = Level::kArguments;
  } else {
    EnterElsewhere();
  }
}

bool Handler::Ascend() {
  input_.SawToken();
  --depth_;
  switch (level_) {
    case Level::kElsewhere:
      if (depth_ < elsewhere_) level_ = back_to_;
      return true;
    case Level::kArguments:
      level_ = Level::kEvent;
      field_ = Field::kUnknown;
      return true;
    case Level::kEvent:
      level_ = Level::kEvents;
      return Check(taker_.TakeEvent(values_));
    case Level::kFrame:
      level_ = Level::kFrames;
      return Check(taker_.TakeFrame(key_, values_));
    case Level::kEvents:
    case Level::kFrames:
      level_ = is_bare_ ? Level::kStart : Level::kFile;
      return true;
    case Level::kFile:
    case Level::kStart:
      level_ = Level::kStart;
      return true;
  }
  return true;
}

bool Handler::StartObject() { return Descend(true); }
bool Handler::EndObject(rapidjson::SizeType /*members*/) { return Ascend(); }
bool Handler::StartArray() { return Descend(false); }
bool Handler::EndArray(rapidjson::SizeType /*elements*/) { return Ascend(); }

}  // namespace

absl::StatusOr<ProfilerEvents> ReadProfilerEvents(io::ByteSource& source, const std::string& name) {
  io::JsonInput input(source);
  Handler handler(input);
  // Texts may hold any bytes, because an odd name of an operator must not hide the memory.
  absl::Status status =
      io::ReadJsonEvents<rapidjson::kParseNoFlags>(input, handler, name, "a trace of a profiler");
  if (!status.ok()) return status;
  if (!handler.has_events()) {
    return text::AboutFile(name, absl::InvalidArgumentError(
                                     "JSON without traceEvents, expected a trace of a profiler"));
  }
  return handler.taker().Finish();
}

}  // namespace tidepool::chrome
