// SPDX-License-Identifier: Apache-2.0
// Heap profile: a profile.proto of pprof with live bytes by stack, as
// jax.profiler.save_device_memory_profile and Go write it. Each sample becomes one allocation.
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/quote.h"
#include "lib/trace/profiles/profiles.h"
#include "lib/trace/profiles/protobuf.h"
#include "lib/trace/profiles/whole_file.h"

namespace tidepool::profiles {
namespace {

constexpr std::int32_t kHost = -1;

struct Function {
  std::uint64_t name = 0;  // strings by index
  std::uint64_t file = 0;
};

struct Line {
  std::uint64_t function = 0;  // id
  std::uint64_t line = 0;
};

struct Location {
  std::size_t first_line = 0;  // of those of all locations; innermost first
  std::size_t lines = 0;
  std::uint64_t address = 0;
};

struct Sample {
  std::size_t first_location = 0;  // of the ids of all samples; innermost first
  std::size_t locations = 0;
  std::int64_t bytes = 0;
  std::uint64_t kind = 0;  // strings by index; 0 is ""
  std::uint64_t device = 0;
};

absl::Status Damaged() {
  return absl::InvalidArgumentError("a damaged pprof profile, expected a profile.proto");
}

// The parts of a profile. Strings come after the messages that name them, so the sample types are
// resolved first and the texts last.
class Profile {
 public:
  absl::Status Read(std::string_view message) {
    if (absl::Status status = ReadStrings(message); !status.ok()) return status;
    if (absl::Status status = ChooseValue(); !status.ok()) return status;
    ProtobufReader reader(message);
    while (reader.Next()) {
      if (!reader.has_bytes()) continue;
      absl::Status status;
      if (reader.field() == 2) status = ReadSample(reader.bytes());
      if (reader.field() == 4) status = ReadLocation(reader.bytes());
      if (reader.field() == 5) status = ReadFunction(reader.bytes());
      if (!status.ok()) return status;
    }
    return reader.is_valid() ? absl::OkStatus() : Damaged();
  }

  const std::vector<Sample>& samples() const { return samples_; }
  const std::vector<std::uint64_t>& location_ids() const { return location_ids_; }
  const std::vector<Line>& lines() const { return lines_; }
  const Location* LocationOf(std::uint64_t id) const {
    const auto found = locations_.find(id);
    return found == locations_.end() ? nullptr : &found->second;
  }
  Function FunctionOf(std::uint64_t id) const {
    const auto found = functions_.find(id);
    return found == functions_.end() ? Function() : found->second;
  }
  std::string_view Text(std::uint64_t index) const {
    return index < strings_.size() ? strings_[index] : std::string_view();
  }

 private:
  absl::Status ReadStrings(std::string_view message) {
    ProtobufReader reader(message);
    while (reader.Next()) {
      if (!reader.has_bytes()) continue;
      if (reader.field() == 6) strings_.push_back(reader.bytes());
      if (reader.field() == 1) types_.push_back(reader.bytes());
    }
    return reader.is_valid() ? absl::OkStatus() : Damaged();
  }

  // Chooses the value of samples that counts live bytes.
  absl::Status ChooseValue() {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < types_.size(); ++i) {
      std::uint64_t type = 0;
      std::uint64_t unit = 0;
      ProtobufReader reader(types_[i]);
      while (reader.Next()) {
        if (reader.field() == 1) type = reader.integer();
        if (reader.field() == 2) unit = reader.integer();
      }
      const std::string_view name = Text(type);
      if (names.size() < 8) names.push_back(text::Quoted(name));
      if (Text(unit) == "bytes" && (name == "space" || name == "inuse_space")) {
        value_ = i;
        return absl::OkStatus();
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat("a pprof profile of ", absl::StrJoin(names, ", "),
                     ", expected one of live memory: a value 'space' or 'inuse_space' in bytes"));
  }

  absl::Status ReadSample(std::string_view message) {
    Sample sample = {.first_location = location_ids_.size()};
    std::size_t value = 0;
    ProtobufReader reader(message);
    bool is_valid = true;
    while (reader.Next()) {
      if (reader.field() == 1) {
        is_valid &= reader.VisitIntegers([&](std::uint64_t id) { location_ids_.push_back(id); });
      } else if (reader.field() == 2) {
        is_valid &= reader.VisitIntegers([&](std::uint64_t integer) {
          if (value++ == value_) sample.bytes = static_cast<std::int64_t>(integer);
        });
      } else if (reader.field() == 3 && reader.has_bytes()) {
        ReadLabel(reader.bytes(), sample);
      }
    }
    sample.locations = location_ids_.size() - sample.first_location;
    samples_.push_back(sample);
    return is_valid && reader.is_valid() ? absl::OkStatus() : Damaged();
  }

  void ReadLabel(std::string_view message, Sample& sample) const {
    std::uint64_t key = 0;
    std::uint64_t text = 0;
    ProtobufReader reader(message);
    while (reader.Next()) {
      if (reader.field() == 1) key = reader.integer();
      if (reader.field() == 2) text = reader.integer();
    }
    if (Text(key) == "kind") sample.kind = text;
    if (Text(key) == "device") sample.device = text;
  }

  absl::Status ReadLocation(std::string_view message) {
    std::uint64_t id = 0;
    Location location = {.first_line = lines_.size()};
    ProtobufReader reader(message);
    while (reader.Next()) {
      if (reader.field() == 1) id = reader.integer();
      if (reader.field() == 3) location.address = reader.integer();
      if (reader.field() == 4 && reader.has_bytes()) ReadLine(reader.bytes());
    }
    location.lines = lines_.size() - location.first_line;
    locations_[id] = location;
    return reader.is_valid() ? absl::OkStatus() : Damaged();
  }

  void ReadLine(std::string_view message) {
    Line line;
    ProtobufReader reader(message);
    while (reader.Next()) {
      if (reader.field() == 1) line.function = reader.integer();
      if (reader.field() == 2) line.line = reader.integer();
    }
    lines_.push_back(line);
  }

  absl::Status ReadFunction(std::string_view message) {
    std::uint64_t id = 0;
    Function function;
    ProtobufReader reader(message);
    while (reader.Next()) {
      if (reader.field() == 1) id = reader.integer();
      if (reader.field() == 2) function.name = reader.integer();
      if (reader.field() == 4) function.file = reader.integer();
    }
    functions_[id] = function;
    return reader.is_valid() ? absl::OkStatus() : Damaged();
  }

  std::vector<std::string_view> strings_;
  std::vector<std::string_view> types_;  // messages
  std::size_t value_ = 0;                // number of the value that counts live bytes
  std::vector<Sample> samples_;
  std::vector<std::uint64_t> location_ids_;
  std::vector<Line> lines_;
  absl::flat_hash_map<std::uint64_t, Location> locations_;
  absl::flat_hash_map<std::uint64_t, Function> functions_;
};

// Returns the number of a device with a name such as "gpu:0" or "TFRT_CPU_0".
std::int32_t DeviceOf(std::string_view name) {
  if (name.find("cpu") != std::string_view::npos || name.find("CPU") != std::string_view::npos)
    return kHost;
  const std::size_t end = name.find_last_not_of("0123456789");
  const std::string_view digits = end == std::string_view::npos ? name : name.substr(end + 1);
  std::int32_t number = 0;
  return absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &number) ? number : 0;
}

class ProfileTrace {
 public:
  ProfileTrace(const Profile& profile, std::size_t bytes)
      : profile_(profile), steps_left_(16 * bytes + 1024) {}

  absl::StatusOr<Trace> Build(const ReadOptions& options) {
    ChooseDevice(options);
    builder_.SetHistory(false);
    for (const Sample& sample : profile_.samples()) {
      if (DeviceOf(profile_.Text(sample.device)) != device_) continue;
      if (absl::Status status = Add(sample); !status.ok()) return status;
    }
    builder_.BeginRecording();
    return builder_.Build();
  }

 private:
  // Chooses the device with the most bytes; the host only without another.
  void ChooseDevice(const ReadOptions& options) {
    absl::flat_hash_map<std::int32_t, double> bytes;
    for (const Sample& sample : profile_.samples()) {
      bytes[DeviceOf(profile_.Text(sample.device))] += static_cast<double>(sample.bytes);
    }
    std::vector<std::int32_t> devices;
    for (const auto& [device, sum] : bytes) devices.push_back(device);
    std::sort(devices.begin(), devices.end());
    if (devices.empty()) return;
    device_ = devices.back();
    for (const std::int32_t device : devices) {
      if (device != kHost && bytes[device] > bytes[device_]) device_ = device;
    }
    if (options.device.has_value() &&
        std::binary_search(devices.begin(), devices.end(), *options.device)) {
      device_ = *options.device;
    }
    builder_.SetDevices(device_, std::move(devices));
  }

  absl::Status Add(const Sample& sample) {
    if (sample.bytes <= 0) {
      builder_.CountSkippedRow();
      return absl::OkStatus();
    }
    absl::StatusOr<TraceTag> tag = Purpose(profile_.Text(sample.kind));
    for (std::size_t i = sample.locations; i > 0 && tag.ok(); --i) {
      tag = Called(*tag, profile_.location_ids()[sample.first_location + i - 1]);
    }
    if (!tag.ok()) return tag.status();
    builder_.SetTag(*tag);
    return builder_.Allocate(absl::StrCat(next_++), sample.bytes, Hint::kResident, "", 0);
  }

  // JAX labels samples with their kind: a buffer, or the code of an executable.
  absl::StatusOr<TraceTag> Purpose(std::string_view kind) {
    if (kind.empty() || kind == "buffer") return TraceTag{0};
    return builder_.Frame(0, kind, kPurposeFile, 0);
  }

  absl::StatusOr<TraceTag> Called(TraceTag caller, std::uint64_t id) {
    const auto known = called_.find({caller, id});
    if (known != called_.end()) return known->second;
    const Location* location = profile_.LocationOf(id);
    if (location == nullptr) return caller;
    const std::size_t steps = 1 + location->lines;
    if (steps > steps_left_)
      return absl::InvalidArgumentError("too many references to the same locations");
    steps_left_ -= steps;
    TraceTag tag = caller;
    for (std::size_t i = location->lines; i > 0; --i) {
      const Line& line = profile_.lines()[location->first_line + i - 1];
      const Function function = profile_.FunctionOf(line.function);
      const std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
      absl::StatusOr<TraceTag> made =
          builder_.Frame(tag, profile_.Text(function.name), profile_.Text(function.file),
                         line.line > most ? 0 : static_cast<std::uint32_t>(line.line));
      if (!made.ok()) return made;
      tag = *made;
    }
    called_[{caller, id}] = tag;
    return tag;
  }

  const Profile& profile_;
  TraceBuilder builder_{TraceFormat::kHeapProfile};
  absl::flat_hash_map<std::pair<TraceTag, std::uint64_t>, TraceTag> called_;
  std::size_t steps_left_;
  std::uint64_t next_ = 0;
  std::int32_t device_ = 0;
};

absl::StatusOr<Trace> ReadProfile(io::ByteSource& source, const ReadOptions& options) {
  const absl::StatusOr<std::string> bytes = WholeFile(source);
  if (!bytes.ok()) return bytes.status();
  Profile profile;
  if (absl::Status status = profile.Read(*bytes); !status.ok()) return status;
  return ProfileTrace(profile, bytes->size()).Build(options);
}

}  // namespace

// The first field is the type of a value: a message that begins with its own field 1 or 2.
bool IsHeapProfile(std::string_view beginning) {
  return beginning.size() >= 3 && beginning[0] == '\x0a' && beginning[1] >= 2 &&
         beginning[1] < 24 && (beginning[2] == '\x08' || beginning[2] == '\x10');
}

absl::StatusOr<Trace> ReadHeapProfile(io::ByteSource& source, const std::string& name,
                                      const ReadOptions& options) {
  absl::StatusOr<Trace> trace = ReadProfile(source, options);
  return trace.ok() ? std::move(trace) : text::AboutFile(name, trace.status());
}

}  // namespace tidepool::profiles
