// SPDX-License-Identifier: Apache-2.0
// Profiles as JSON. A flat map has the values of the file by their paths. The profile takes out
// each known value, and a remaining value is an error.
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/io/json_text.h"
#include "lib/base/io/json_tree.h"
#include "lib/base/text/quote.h"
#include "lib/copies/zvc/profile_fields.h"
#include "tidepool/copies/compression_profile.h"
#include "tidepool/trace/output_file.h"

namespace tidepool {
namespace {

using text::Quoted;

using io::JsonKind;
using io::JsonValue;
using Values = std::map<std::string, JsonValue>;

constexpr std::size_t kMostValues = 1000;

// Adds the values below `value`, and their paths, which begin with `path`. An empty object or array
// counts as a value, so that it is reported as unknown.
absl::Status Flatten(const JsonValue& value, const std::string& path, Values& values) {
  const bool is_array = value.kind() == JsonKind::kArray;
  std::set<std::string, std::less<>> names;
  std::size_t next = 0;
  absl::Status status = value.ForEach([&](const JsonValue& below) -> absl::Status {
    const std::string name(below.name());
    // Names with these characters would be mistaken for paths.
    if (name.find_first_of(".[") != std::string::npos) {
      return below.Error(absl::StrCat("unknown name ", Quoted(name), ", expected a field"));
    }
    const std::string its = is_array       ? absl::StrCat(path, "[", next, "]")
                            : path.empty() ? name
                                           : absl::StrCat(path, ".", name);
    ++next;
    if (!is_array && !names.insert(name).second) {
      return below.Error(absl::StrCat(Quoted(its), " is there twice, expected it once"));
    }
    return Flatten(below, its, values);
  });
  if (next == 0) values.insert({path, value});
  return status;
}

// The values of a profile by their paths ("words.32.compress.a").
class ProfileValues {
 public:
  ProfileValues(const JsonValue& root, Values values) : root_(root), values_(std::move(values)) {}

  bool Has(const std::string& name) const { return values_.contains(name); }

  // Takes out the number called `name`.
  absl::Status TakeNumber(const std::string& name, const zvc::NumberRange& range, double* number) {
    const std::string expected = zvc::RangeText(range);
    const absl::StatusOr<JsonValue> value = Take(name, expected);
    if (!value.ok()) return value.status();
    if (value->To(number) && zvc::IsIn(range, *number)) return absl::OkStatus();
    return value->Error(absl::StrCat("'", name, "' is ", value->Shown(), ", expected ", expected));
  }

  absl::Status TakeText(const std::string& name, std::size_t most, std::string* text) {
    const std::string expected = absl::StrCat("a text of at most ", most, " bytes");
    const absl::StatusOr<JsonValue> value = Take(name, expected);
    if (!value.ok()) return value.status();
    if (!value->To(text)) {
      return value->Error(
          absl::StrCat("'", name, "' is ", value->Shown(), ", expected ", expected));
    }
    if (text->size() <= most) return absl::OkStatus();
    return value->Error(
        absl::StrCat("'", name, "' has ", text->size(), " bytes, expected ", expected));
  }

  // Returns an error if a value is left.
  absl::Status Finish() const {
    if (values_.empty()) return absl::OkStatus();
    const auto& [name, value] = *values_.begin();
    return value.Error(absl::StrCat(Quoted(name), " is not a field of profiles of version ",
                                    zvc::kProfileVersion, ", expected its fields alone"));
  }

 private:
  absl::StatusOr<JsonValue> Take(const std::string& name, const std::string& expected) {
    const auto found = values_.extract(name);
    if (found.empty()) {
      return root_.ErrorAtEnd(absl::StrCat("no '", name, "', expected ", expected));
    }
    return found.mapped();
  }

  const JsonValue root_;
  Values values_;
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

absl::StatusOr<CompressionProfile> ReadRoot(const JsonValue& root) {
  if (root.kind() != JsonKind::kObject) {
    return root.Error(absl::StrCat(root.Shown(), ", expected an object"));
  }
  Values values;
  absl::Status status = Flatten(root, "", values);
  ProfileValues named(root, std::move(values));
  CompressionProfile profile;
  if (status.ok()) status = TakeProfile(named, &profile);
  if (!status.ok()) return status;
  return profile;
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
  if (!source.ok()) return text::AboutFile(path, source.status());
  return io::ReadJson(*std::move(source), path,
                      {.expected = "a compression profile", .most_values = kMostValues}, ReadRoot);
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
