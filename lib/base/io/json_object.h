// SPDX-License-Identifier: Apache-2.0
// Objects of JSON by tables of their fields.
#ifndef TIDEPOOL_LIB_BASE_IO_JSON_OBJECT_H_
#define TIDEPOOL_LIB_BASE_IO_JSON_OBJECT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/base/io/json_tree.h"

namespace tidepool::io {

enum class JsonNeed : std::uint8_t { kOptional, kRequired };

// A field of an object that is read into a Target.
template <typename Target>
struct JsonField {
  // `take` is a lambda without captures: take(value, target) returns false for a value that the
  // field cannot have, and an error for a fault within a value, as a bool, a Status or a
  // StatusOr<bool>.
  template <typename Take>
  constexpr JsonField(std::string_view called, JsonNeed needed, std::string_view values,
                      Take /*take*/)
      : name(called), need(needed), expected(values), take(&Call<Take>) {}

  std::string_view name;
  JsonNeed need;
  std::string_view expected;  // the values that it may have, for errors
  absl::StatusOr<bool> (*take)(const JsonValue& value, Target& target);

 private:
  template <typename Take>
  static absl::StatusOr<bool> Call(const JsonValue& value, Target& target) {
    auto taken = Take{}(value, target);
    if constexpr (std::is_same_v<decltype(taken), absl::Status>) {
      if (taken.ok()) return true;
    }
    return taken;
  }
};

// The takes of fields that are members of the target.
template <auto kMember>
inline constexpr auto kToMember =
    [](const JsonValue& value, auto& target) { return value.To(&(target.*kMember)); };

template <typename Target>
struct JsonObject {
  std::string_view name;  // with its article, for errors
  absl::Span<const JsonField<Target>> fields;

  // Returns the number of the field, or that of all fields.
  std::size_t Find(std::string_view field) const {
    std::size_t at = 0;
    while (at < fields.size() && fields[at].name != field) ++at;
    return at;
  }
  // Returns the names of fields, of which `without` has no bits, with commas between them.
  std::string Names(std::uint64_t without) const {
    std::string names;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if ((without >> i & 1) != 0) continue;
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(fields[i].name));
    }
    return names;
  }
};

// Whether the object has the field: JsonTree::Options::knows of files that hold it.
template <const auto& kObject>
bool Knows(std::string_view field) {
  return kObject.Find(field) < kObject.fields.size();
}

// The errors of members of objects.
absl::Status UnknownKey(const JsonValue& member, std::string_view object,
                        const std::string& expected);
absl::Status RepeatedKey(const JsonValue& member, std::string_view object);
absl::Status WrongValue(const JsonValue& member, std::string_view object,
                        std::string_view expected);
absl::Status MissingKeys(const JsonValue& value, std::string_view object, const std::string& names);

// Takes the fields of an object in the order of the file. Returns false if `value` is no object.
// A key that the object does not have or has twice, a required one that it lacks, and a value that
// a field cannot have are errors. At most 64 fields. O(values below x fields).
template <typename Target>
absl::StatusOr<bool> TakeObject(const JsonValue& value, const JsonObject<Target>& object,
                                Target& target) {
  if (value.kind() != JsonKind::kObject) return false;
  std::uint64_t seen = 0;
  absl::Status status = value.ForEach([&](const JsonValue& member) -> absl::Status {
    const std::size_t at = object.Find(member.name());
    if (at == object.fields.size()) return UnknownKey(member, object.name, object.Names(0));
    if ((seen >> at & 1) != 0) return RepeatedKey(member, object.name);
    seen |= std::uint64_t{1} << at;
    const JsonField<Target>& field = object.fields[at];
    const absl::StatusOr<bool> is_taken = field.take(member, target);
    if (!is_taken.ok()) return is_taken.status();
    return *is_taken ? absl::OkStatus() : WrongValue(member, object.name, field.expected);
  });
  if (!status.ok()) return status;
  std::uint64_t needless = seen;
  for (std::size_t i = 0; i < object.fields.size(); ++i) {
    if (object.fields[i].need == JsonNeed::kOptional) needless |= std::uint64_t{1} << i;
  }
  const std::string missing = object.Names(needless);
  if (!missing.empty()) return MissingKeys(value, object.name, missing);
  return true;
}

// Takes an object that is an element of an array, or the value of a file. `expected` ends the error
// of another value.
template <typename Target>
absl::Status ReadObject(const JsonValue& value, const JsonObject<Target>& object, Target& target,
                        std::string_view expected = " in an array of objects, expected an object") {
  const absl::StatusOr<bool> is_taken = TakeObject(value, object, target);
  if (!is_taken.ok()) return is_taken.status();
  if (*is_taken) return absl::OkStatus();
  return value.Error(absl::StrCat(value.Shown(), std::string(expected)));
}

// Calls visit(element) for each element of an array until it returns an error. Returns false if
// `value` is no array.
template <typename Visit>
absl::StatusOr<bool> TakeArray(const JsonValue& value, Visit visit) {
  if (value.kind() != JsonKind::kArray) return false;
  if (absl::Status status = value.ForEach(visit); !status.ok()) return status;
  return true;
}

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_JSON_OBJECT_H_
