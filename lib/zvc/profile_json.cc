// SPDX-License-Identifier: Apache-2.0
// Profiles as JSON. The parser makes a flat map from paths ("words.32.compress.a") to values with
// their lines. Then the profile takes out each known value, and a remaining value is an error.
#include <rapidjson/reader.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/io/byte_source.h"
#include "lib/io/json_events.h"
#include "lib/io/json_input.h"
#include "lib/io/json_text.h"
#include "lib/io/quote.h"
#include "lib/zvc/profile_fields.h"
#include "tidepool/compress/compression_profile.h"
#include "tidepool/trace/output_file.h"

namespace tidepool {
namespace {

using io::Quoted;

constexpr std::size_t kMostValues = 1000;
constexpr std::size_t kDeepest = 8;

enum class ProfileValueKind : std::uint8_t { kText, kNumber, kOther };

struct ProfileValue {
  ProfileValueKind kind = ProfileValueKind::kOther;
  std::string text;
  std::int64_t line = 0;
};

// Error and its line.
struct ProfileError {
  std::int64_t line = 0;
  absl::Status status;
};

// Receives the events of RapidJSON's parser.
class ProfileHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, ProfileHandler> {
 public:
  explicit ProfileHandler(io::JsonInput& input) : input_(input) {}

  bool Null() { return Add(ProfileValueKind::kOther, ""); }
  bool Bool(bool /*value*/) { return Add(ProfileValueKind::kOther, ""); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return Add(ProfileValueKind::kNumber, {text, size});
  }
  bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    return Add(ProfileValueKind::kText, {text, size});
  }
  bool Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
    input_.SawToken();
    key_.assign(text, size);
    // Names with these characters would be mistaken for paths.
    if (key_.find_first_of(".[") == std::string::npos) return true;
    return Fail(absl::StrCat("unknown name ", io::Quoted(key_)));
  }
  bool StartObject() { return Enter(false); }
  bool StartArray() { return Enter(true); }
  bool EndObject(rapidjson::SizeType /*members*/) { return Leave(); }
  bool EndArray(rapidjson::SizeType /*elements*/) { return Leave(); }

  const absl::Status& status() const { return error_.status; }
  std::int64_t line() const { return error_.line; }
  std::map<std::string, ProfileValue>& values() { return values_; }

 private:
  struct Level {
    std::string path;
    bool is_array = false;
    int next = 0;
    bool is_empty = true;
  };

  bool Fail(const std::string& what) {
    error_ = {input_.line(), absl::InvalidArgumentError(what)};
    return false;
  }

  std::string NextPath() {
    if (levels_.empty()) return "";
    Level& level = levels_.back();
    level.is_empty = false;
    if (level.is_array) return absl::StrCat(level.path, "[", level.next++, "]");
    return level.path.empty() ? key_ : absl::StrCat(level.path, ".", key_);
  }

  bool Enter(bool is_array) {
    input_.SawToken();
    if (levels_.empty() && is_array) return Fail("an array, expected an object");
    if (levels_.size() == kDeepest)
      return Fail(absl::StrCat("values nested too deep, expected at most ", kDeepest, " levels"));
    std::string path = NextPath();
    if (!levels_.empty() && !entered_.insert(path).second) return FailTwice(path);
    levels_.push_back({std::move(path), is_array});
    return true;
  }

  bool Leave() {
    input_.SawToken();
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    // An empty object or array counts as a value, so that it is reported as unknown.
    if (level.is_empty) values_.insert({level.path, {ProfileValueKind::kOther, "", input_.line()}});
    return true;
  }

  bool Add(ProfileValueKind kind, std::string_view text) {
    input_.SawToken();
    if (levels_.empty()) return Fail("a single value, expected an object");
    if (values_.size() == kMostValues) {
      return Fail(absl::StrCat("too many values, expected at most ", kMostValues));
    }
    const std::string path = NextPath();
    ProfileValue value = {kind, std::string(text), input_.line()};
    if (!values_.insert({path, std::move(value)}).second) return FailTwice(path);
    return true;
  }

  bool FailTwice(const std::string& path) {
    return Fail(absl::StrCat(io::Quoted(path), " is there twice"));
  }

  io::JsonInput& input_;
  std::vector<Level> levels_;
  std::set<std::string> entered_;  // objects and arrays
  std::string key_;
  std::map<std::string, ProfileValue> values_;
  ProfileError error_;
};

class ProfileValues {
 public:
  explicit ProfileValues(std::map<std::string, ProfileValue> values) : values_(std::move(values)) {}

  bool Has(const std::string& name) const { return values_.contains(name); }
  const ProfileError& error() const { return error_; }

  // Takes out the number called `name`.
  absl::Status TakeNumber(const std::string& name, const zvc::NumberRange& range, double* number) {
    ProfileValue value;
    absl::Status status = Take(name, zvc::RangeText(range), ProfileValueKind::kNumber, &value);
    if (!status.ok()) return status;
    if (!absl::SimpleAtod(value.text, number)) *number = std::numeric_limits<double>::quiet_NaN();
    if (zvc::IsIn(range, *number)) return status;
    return Fail(value.line, absl::StrCat("'", name, "' is ", value.text.substr(0, 40),
                                         ", expected ", zvc::RangeText(range)));
  }

  absl::Status TakeText(const std::string& name, std::size_t most, std::string* text) {
    const std::string expected = absl::StrCat("a text of at most ", most, " bytes");
    ProfileValue value;
    absl::Status status = Take(name, expected, ProfileValueKind::kText, &value);
    if (!status.ok()) return status;
    *text = value.text;
    if (text->size() <= most) return status;
    return Fail(value.line,
                absl::StrCat("'", name, "' has ", text->size(), " bytes, expected ", expected));
  }

  // Returns an error if a value is left.
  absl::Status Finish() {
    if (values_.empty()) return absl::OkStatus();
    const auto& [name, value] = *values_.begin();
    return Fail(value.line,
                absl::StrCat(io::Quoted(name), " is not a field of profiles of version ",
                             zvc::kProfileVersion));
  }

 private:
  absl::Status Take(const std::string& name, const std::string& expected, ProfileValueKind kind,
                    ProfileValue* value) {
    const auto found = values_.extract(name);
    if (found.empty()) return Fail(0, absl::StrCat("no '", name, "', expected ", expected));
    *value = found.mapped();
    if (value->kind == kind) return absl::OkStatus();
    const char* const what = value->kind == ProfileValueKind::kText     ? "a text"
                             : value->kind == ProfileValueKind::kNumber ? "a number"
                                                                        : "neither text nor number";
    return Fail(value->line, absl::StrCat("'", name, "' is ", what, ", expected ", expected));
  }

  absl::Status Fail(std::int64_t line, const std::string& what) {
    error_ = {line, absl::InvalidArgumentError(what)};
    return error_.status;
  }

  std::map<std::string, ProfileValue> values_;
  ProfileError error_;
};

absl::Status TakeSpeedups(ProfileValues& values, std::vector<double>* speedups) {
  speedups->clear();
  for (std::size_t i = 0; i < kMaxZeroValueThreads; ++i) {
    const std::string name = absl::StrCat("speedups[", i, "]");
    if (i > 0 && !values.Has(name)) break;
    double speedup = 0;
    const zvc::NumberRange range = zvc::SpeedupRange(i + 1, i == 0 ? 0 : speedups->back());
    if (absl::Status status = values.TakeNumber(name, range, &speedup); !status.ok()) {
      return status;
    }
    speedups->push_back(speedup);
  }
  return absl::OkStatus();
}

absl::Status TakeProfile(ProfileValues& values, CompressionProfile* profile) {
  double version = 0;
  absl::Status status = values.TakeNumber(
      zvc::kProfileVersionName, {zvc::kProfileVersion, zvc::kProfileVersion, 1}, &version);
  if (!status.ok()) return status;
  status = zvc::VisitNumbers(
      *profile, [&](const std::string& name, auto& number, const zvc::NumberRange& range) {
        double value = 0;
        absl::Status taken = values.TakeNumber(name, range, &value);
        if (taken.ok()) number = static_cast<std::remove_reference_t<decltype(number)>>(value);
        return taken;
      });
  if (status.ok()) status = values.TakeText("machine", zvc::kLongestMachine, &profile->machine);
  if (status.ok()) {
    status =
        values.TakeText("instruction_set", zvc::kLongestInstructionSet, &profile->instruction_set);
  }
  if (status.ok()) status = TakeSpeedups(values, &profile->speedups);
  if (status.ok()) status = values.Finish();
  return status;
}

std::string CostJson(const CompressionCost& cost) {
  return absl::StrCat("{\"a\": ", zvc::NumberText(cost.a), ", \"b\": ", zvc::NumberText(cost.b),
                      "}");
}

std::string CostsJson(const CompressionCosts& costs) {
  return absl::StrCat("{\"compress\": ", CostJson(costs.compress),
                      ", \"decompress\": ", CostJson(costs.decompress),
                      ", \"packed_share\": ", zvc::NumberText(costs.packed_share), "}");
}

}  // namespace

std::string CompressionProfileJson(const CompressionProfile& profile) {
  std::string speedups;
  for (const double speedup : profile.speedups) {
    absl::StrAppend(&speedups, speedups.empty() ? "" : ", ", zvc::NumberText(speedup));
  }
  return absl::StrCat(
      "{\n  \"", zvc::kProfileVersionName, "\": ", zvc::kProfileVersion,
      ",\n  \"machine\": ", io::JsonText(profile.machine),
      ",\n  \"processors\": ", profile.processors,
      ",\n  \"instruction_set\": ", io::JsonText(profile.instruction_set),
      ",\n  \"threads\": ", profile.threads, ",\n  \"chunk_bytes\": ", profile.chunk_bytes,
      ",\n  \"slot_ns\": ", zvc::NumberText(profile.slot_ns),
      ",\n  \"memcpy_bytes_per_second\": ", zvc::NumberText(profile.memcpy_bytes_per_second),
      ",\n  \"speedups\": [", speedups,
      "],\n  \"words\": {\n    \"16\": ", CostsJson(profile.words16),
      ",\n    \"32\": ", CostsJson(profile.words32), "\n  }\n}\n");
}

absl::Status WriteCompressionProfile(const CompressionProfile& profile, const std::string& path) {
  if (absl::Status status = CheckCompressionProfile(profile); !status.ok()) return status;
  return WriteFile(path, [&profile](std::ostream& out) {
    out << CompressionProfileJson(profile);
    return absl::OkStatus();
  });
}

absl::StatusOr<CompressionProfile> ReadCompressionProfile(const std::string& path) {
  auto source = io::OpenFile(path, "a compression profile");
  if (!source.ok()) return io::AboutFile(path, source.status());
  io::JsonInput input(**source);
  ProfileHandler handler(input);
  absl::Status status = io::ReadJsonEvents(input, handler, path, "a compression profile");
  if (!status.ok()) return status;
  ProfileValues values(std::move(handler.values()));
  CompressionProfile profile;
  if (!TakeProfile(values, &profile).ok()) {
    return io::AboutLine(path, values.error().line, values.error().status);
  }
  return profile;
}

absl::StatusOr<CompressionProfile> CompressionProfileFromEnvironment() {
  const char* const path = std::getenv(kCompressionProfileVariable);
  if (path == nullptr || *path == '\0') return CompressionProfile();
  absl::StatusOr<CompressionProfile> profile = ReadCompressionProfile(path);
  if (profile.ok()) return profile;
  return absl::Status(profile.status().code(), absl::StrCat(kCompressionProfileVariable, " names ",
                                                            profile.status().message()));
}

}  // namespace tidepool
