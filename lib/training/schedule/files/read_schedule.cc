// SPDX-License-Identifier: Apache-2.0
// Reads schedules: their objects as tables of fields, and steps as rows of the name of the kind and
// its columns. Faults of steps get the line of the step.
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/json_object.h"
#include "lib/base/io/json_tree.h"
#include "lib/base/text/quote.h"
#include "lib/training/schedule/check/check_steps.h"
#include "lib/training/schedule/files/step_columns.h"
#include "tidepool/training/schedule_file.h"

namespace tidepool::schedule {
namespace {

using io::JsonField;
using io::JsonKind;
using io::JsonValue;
using io::kToMember;
using enum io::JsonNeed;

constexpr std::string_view kText = "a text";
constexpr std::string_view kWhole = "a whole number from 0 to 2^63 - 1";
constexpr std::string_view kNumber = "a number, or 'infinite'";
constexpr std::string_view kFlag = "true or false";
constexpr std::string_view kArray = "an array";
constexpr std::string_view kObject = "an object";
constexpr std::string_view kSharing = "'equal-parts' or 'first-come-first-served'";

bool IsText(const JsonValue& value, std::string_view text) {
  return value.kind() == JsonKind::kText && value.text() == text;
}

// Takes the first of `choices` that has the name.
template <typename Choice>
bool ToNamed(const JsonValue& value, std::initializer_list<Choice> choices,
             std::string_view (*name_of)(Choice), Choice* named) {
  for (const Choice choice : choices) {
    if (!IsText(value, name_of(choice))) continue;
    *named = choice;
    return true;
  }
  return false;
}

template <typename Number>
bool ToCount(const JsonValue& value, Number* count) {
  std::int64_t number = 0;
  if (!value.To(&number) || number < 0) return false;
  *count = static_cast<Number>(number);
  return true;
}

bool ToNumber(const JsonValue& value, double* number) {
  if (!IsText(value, "infinite")) return value.To(number);
  *number = std::numeric_limits<double>::infinity();
  return true;
}

// The takes of members of the target.
template <auto kMember>
constexpr auto kCount =
    [](const JsonValue& value, auto& target) { return ToCount(value, &(target.*kMember)); };
template <auto kMember>
constexpr auto kRate =
    [](const JsonValue& value, auto& target) { return ToNumber(value, &(target.*kMember)); };
template <auto kMember>
constexpr auto kShared = [](const JsonValue& value, auto& target) {
  return ToNamed(value, {LinkSharing::kEqualParts, LinkSharing::kFirstComeFirstServed},
                 LinkSharingName, &(target.*kMember));
};
// Objects in an array become the elements of a vector.
template <auto kMember, const auto& kElement>
constexpr auto kElements = [](const JsonValue& value, auto& target) {
  return io::TakeArray(value, [&](const JsonValue& element) {
    return io::ReadObject(element, kElement, (target.*kMember).emplace_back());
  });
};

constexpr JsonField<MachineDevice> kDeviceFields[] = {
    {"memory", kRequired, kWhole, kCount<&MachineDevice::memory_bytes>},
    {"link", kOptional, kWhole, kCount<&MachineDevice::link>},
    {"compute_streams", kOptional, kWhole, kCount<&MachineDevice::compute_streams>},
    {"compressor", kOptional, kNumber,
     [](const JsonValue& value, MachineDevice& device) {
       return ToNumber(value, &device.compressor.out_bytes_per_second);
     }},
    {"decompressor", kOptional, kNumber, [](const JsonValue& value, MachineDevice& device) {
       return ToNumber(value, &device.compressor.in_bytes_per_second);
     }}};
constexpr io::JsonObject<MachineDevice> kDevice = {"a device", kDeviceFields};

constexpr JsonField<MachineLink> kLinkFields[] = {
    {"out", kRequired, kNumber, kRate<&MachineLink::out_bytes_per_second>},
    {"in", kRequired, kNumber, kRate<&MachineLink::in_bytes_per_second>},
    {"latency", kOptional, kNumber, kRate<&MachineLink::latency_seconds>},
    {"full_duplex", kOptional, kFlag, kToMember<&MachineLink::full_duplex>},
    {"sharing", kOptional, kSharing, kShared<&MachineLink::sharing>}};
constexpr io::JsonObject<MachineLink> kLink = {"a link", kLinkFields};

constexpr JsonField<MachineHost> kHostFields[] = {
    {"memory", kOptional, kWhole, kCount<&MachineHost::memory_bytes>},
    {"cores", kOptional, kWhole, kCount<&MachineHost::cores>},
    {"accumulation", kOptional, kNumber, kRate<&MachineHost::accumulation_bytes_per_second>},
    {"update", kOptional, kNumber, kRate<&MachineHost::update_bytes_per_second>}};
constexpr io::JsonObject<MachineHost> kHost = {"the host", kHostFields};

constexpr JsonField<PeerLinks> kPeersFields[] = {
    {"rate", kRequired, kNumber, kRate<&PeerLinks::bytes_per_second>},
    {"latency", kOptional, kNumber, kRate<&PeerLinks::latency_seconds>},
    {"bus", kOptional, kFlag, kToMember<&PeerLinks::is_bus>},
    {"sharing", kOptional, kSharing, kShared<&PeerLinks::sharing>},
    {"addition", kOptional, kNumber, kRate<&PeerLinks::addition_bytes_per_second>}};
constexpr io::JsonObject<PeerLinks> kPeers = {"the links of peers", kPeersFields};

constexpr JsonField<Machine> kMachineFields[] = {
    {"devices", kRequired, kArray, kElements<&Machine::devices, kDevice>},
    {"links", kRequired, kArray, kElements<&Machine::links, kLink>},
    {"host", kOptional, kObject,
     [](const JsonValue& value, Machine& machine) {
       return io::TakeObject(value, kHost, machine.host);
     }},
    {"peers", kOptional, kObject, [](const JsonValue& value, Machine& machine) {
       return io::TakeObject(value, kPeers, machine.peers);
     }}};
constexpr io::JsonObject<Machine> kMachine = {"a machine", kMachineFields};

constexpr JsonField<ScheduleRound> kRoundFields[] = {
    {"steps", kRequired, kWhole, kCount<&ScheduleRound::steps>},
    {"times", kOptional, kWhole, kCount<&ScheduleRound::times>},
    {"batch", kOptional, kWhole, kCount<&ScheduleRound::batch>}};
constexpr io::JsonObject<ScheduleRound> kRound = {"a round", kRoundFields};

bool ToKind(const JsonValue& value, StepKind* kind) {
  for (int i = 0; i <= static_cast<int>(StepKind::kAdd); ++i) {
    if (!IsText(value, StepKindName(static_cast<StepKind>(i)))) continue;
    *kind = static_cast<StepKind>(i);
    return true;
  }
  return false;
}

bool ToColumn(const JsonValue& value, Column column, ScheduleStep& step) {
  const auto place = [&](std::int64_t* number) { return value.To(number) && *number >= -1; };
  switch (column) {
    case Column::kIndex:
      return ToCount(value, &step.index);
    case Column::kAlgorithm:
      return ToCount(value, &step.algorithm);
    case Column::kStream:
      return ToCount(value, &step.stream);
    case Column::kSource:
      return ToCount(value, &step.source);
    case Column::kBegin:
      return place(&step.begin);
    case Column::kEnd:
      return place(&step.end);
    case Column::kOffset:
      return place(&step.offset);
    case Column::kDensity:
      return value.To(&step.density) && std::isfinite(step.density);
    case Column::kDevice:
      if (!IsText(value, "host")) return ToCount(value, &step.device);
      step.device = kHostDevice;
      return true;
    case Column::kHint:
      step.hint = IsText(value, "offloadable") ? Hint::kOffloadable : Hint::kResident;
      return step.hint == Hint::kOffloadable || IsText(value, "resident");
    case Column::kNoColumn:
      break;
  }
  return false;
}

std::string_view ExpectedIn(Column column) {
  switch (column) {
    case Column::kHint:
      return "'resident' or 'offloadable'";
    case Column::kDensity:
      return "a number";
    case Column::kDevice:
      return "a whole number, or 'host'";
    case Column::kBegin:
    case Column::kEnd:
    case Column::kOffset:
      return "a whole number, or -1";
    default:
      return "a whole number";
  }
}

// Reads the values of a step, one after the other.
class StepReader {
 public:
  explicit StepReader(ScheduleStep& step) : step_(step) {}

  absl::Status Take(const JsonValue& value);
  bool is_cut_off() const { return taken_ < (taken_ > 0 && columns_[0] == kNone ? 1 : 2); }

 private:
  static constexpr Column kNone = Column::kNoColumn;

  ScheduleStep& step_;
  Columns columns_ = {};
  std::size_t taken_ = 0;
};

absl::Status StepReader::Take(const JsonValue& value) {
  if (value.kind() == JsonKind::kArray || value.kind() == JsonKind::kObject) {
    return value.Error(absl::StrCat(value.Shown(), " in a step, expected texts and numbers"));
  }
  const std::size_t at = taken_++;
  if (at == 0) {
    const bool is_kind = ToKind(value, &step_.kind);
    columns_ = ColumnsOf(step_.kind);
    if (is_kind) return absl::OkStatus();
    return value.Error(absl::StrCat(value.Shown(),
                                    " begins a step, expected allocate, free, run, offload, "
                                    "prefetch, synchronize, drop, receive or add"));
  }
  const Column column = at <= columns_.size() ? columns_[at - 1] : kNone;
  if (column == kNone) {
    return value.Error(absl::StrCat(value.Shown(), " in a step of kind ",
                                    std::string(StepKindName(step_.kind)), ", expected at most ",
                                    at - 1, " values after the kind"));
  }
  if (ToColumn(value, column, step_)) return absl::OkStatus();
  return value.Error(absl::StrCat(kColumnNames[static_cast<std::size_t>(column)], " of a step is ",
                                  value.Shown(), ", expected ", std::string(ExpectedIn(column))));
}

// A file as it is written.
struct WrittenFile : ScheduleFile {
  std::int64_t format = 2;
};

absl::Status ReadStep(const JsonValue& value, ScheduleFile& file) {
  StepReader step(file.schedule.steps.emplace_back());
  file.step_lines.push_back(value.line());
  const absl::StatusOr<bool> is_row =
      io::TakeArray(value, [&](const JsonValue& one) { return step.Take(one); });
  if (!is_row.ok()) return is_row.status();
  if (!*is_row) {
    return value.Error(
        absl::StrCat(value.Shown(), " in the list of steps, expected an array for each step"));
  }
  if (!step.is_cut_off()) return absl::OkStatus();
  return value.ErrorAtEnd("a step is cut off, expected its kind and its number");
}

bool ToFingerprint(const JsonValue& value, std::uint64_t* fingerprint) {
  const std::string_view digits = value.text();
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, *fingerprint, 16);
  return value.kind() == JsonKind::kText && digits.size() == 16 && error == std::errc() &&
         stop == end;
}

constexpr JsonField<WrittenFile> kScheduleFields[] = {
    {"tidepool_schedule", kRequired, "1 or 2",
     [](const JsonValue& value, WrittenFile& file) {
       return value.To(&file.format) && file.format >= 1 && file.format <= 2;
     }},
    {"policy", kOptional, kText,
     [](const JsonValue& value, WrittenFile& file) { return value.To(&file.schedule.policy); }},
    {"graph", kOptional, kText, kToMember<&ScheduleFile::graph>},
    {"fingerprint", kRequired, "a text of 16 hexadecimal digits",
     [](const JsonValue& value, WrittenFile& file) {
       return ToFingerprint(value, &file.schedule.fingerprint);
     }},
    {"memory", kRequired, "'pool', 'fixed' or 'paged'",
     [](const JsonValue& value, WrittenFile& file) {
       return ToNamed(value,
                      {ScheduleMemory::kPool, ScheduleMemory::kFixed, ScheduleMemory::kPaged},
                      ScheduleMemoryName, &file.schedule.memory);
     }},
    {"alignment", kOptional, kWhole,
     [](const JsonValue& value, WrittenFile& file) {
       return ToCount(value, &file.schedule.alignment);
     }},
    {"devices", kOptional, kWhole,
     [](const JsonValue& value, WrittenFile& file) {
       return ToCount(value, &file.schedule.devices);
     }},
    {"batch_normalization", kOptional, "'batch' or 'ghost'",
     [](const JsonValue& value, WrittenFile& file) {
       return ToNamed(value, {BatchNormalization::kBatch, BatchNormalization::kGhost},
                      BatchNormalizationName, &file.batch_normalization);
     }},
    {"machine", kOptional, kObject,
     [](const JsonValue& value, WrittenFile& file) {
       file.machine = {.devices = {}, .links = {}};
       return io::TakeObject(value, kMachine, *file.machine);
     }},
    {"rounds", kOptional, kArray,
     [](const JsonValue& value, WrittenFile& file) {
       return kElements<&Schedule::rounds, kRound>(value, file.schedule);
     }},
    {"steps", kRequired, kArray, [](const JsonValue& value, WrittenFile& file) {
       return io::TakeArray(value, [&](const JsonValue& step) { return ReadStep(step, file); });
     }}};
constexpr io::JsonObject<WrittenFile> kSchedule = {"a schedule", kScheduleFields};

absl::StatusOr<ScheduleFile> ReadRoot(const JsonValue& root) {
  WrittenFile file;
  absl::Status status = io::ReadObject(root, kSchedule, file, ", expected a schedule: an object");
  if (!status.ok()) return status;
  if (file.format == 1 && file.schedule.memory == ScheduleMemory::kPool) {
    return root.ErrorAtEnd(
        "a pool in format 1, where an offload gave memory back, expected format 2: make the "
        "schedule again");
  }
  return file;
}

// Reads the whole source, gzip too, without checks of the machine. Errors begin with NAME:LINE.
absl::StatusOr<ScheduleFile> ReadScheduleFile(std::unique_ptr<io::ByteSource> source,
                                              const std::string& name) {
  return io::ReadJson(std::move(source), name, {"a schedule", io::Knows<kSchedule>}, ReadRoot);
}

}  // namespace
}  // namespace tidepool::schedule

namespace tidepool {
namespace {

void NumberRounds(Schedule& schedule) {
  std::size_t next = 0;
  for (ScheduleRound& round : schedule.rounds) {
    round.first_step = next;
    next += round.steps;
  }
}

absl::StatusOr<ScheduleFile> ReadScheduleFrom(std::unique_ptr<io::ByteSource> source,
                                              const std::string& name) {
  absl::StatusOr<ScheduleFile> file = schedule::ReadScheduleFile(std::move(source), name);
  if (!file.ok()) return file;
  NumberRounds(file->schedule);
  file->source = name;
  if (!file->machine.has_value()) return file;
  const absl::Status status = ValidateMachine(*file->machine);
  if (!status.ok()) return text::AboutFile(name, status);
  return file;
}

}  // namespace

absl::StatusOr<ScheduleFile> ReadSchedule(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file = io::OpenFile(path.string(), "a schedule");
  if (!file.ok()) return text::AboutFile(path.string(), file.status());
  return ReadScheduleFrom(*std::move(file), path.string());
}

absl::StatusOr<ScheduleFile> ParseSchedule(std::string_view json, std::string_view name) {
  return ReadScheduleFrom(io::FromMemory(json), std::string(name));
}

absl::Status ValidateScheduleFile(absl::Span<const TaskGraph> graphs, const ScheduleFile& file) {
  std::size_t at = 0;
  absl::Status status = schedule::CheckSchedule(graphs, file.schedule, &at);
  if (!status.ok()) {
    return text::AboutLine(file.source, at < file.step_lines.size() ? file.step_lines[at] : 0,
                           status);
  }
  if (!file.machine.has_value() || file.schedule.devices <= file.machine->devices.size()) {
    return status;
  }
  return text::AboutFile(file.source, absl::InvalidArgumentError(absl::StrCat(
                                          file.schedule.devices, " devices, expected at most the ",
                                          file.machine->devices.size(), " of the machine")));
}

}  // namespace tidepool
