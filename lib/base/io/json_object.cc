// SPDX-License-Identifier: Apache-2.0
#include "lib/base/io/json_object.h"

#include "lib/base/text/quote.h"

namespace tidepool::io {

absl::Status UnknownKey(const JsonValue& member, std::string_view object,
                        const std::string& expected) {
  return member.Error(absl::StrCat("the unknown key ", text::Quoted(member.name()), " in ",
                                   std::string(object), ", expected ", expected));
}

absl::Status RepeatedKey(const JsonValue& member, std::string_view object) {
  return member.Error(absl::StrCat("the key ", text::Quoted(member.name()), " is in ",
                                   std::string(object), " twice, expected it once"));
}

absl::Status WrongValue(const JsonValue& member, std::string_view object,
                        std::string_view expected) {
  return member.Error(absl::StrCat(std::string(member.name()), " of ", std::string(object), " is ",
                                   member.Shown(), ", expected ", std::string(expected)));
}

absl::Status MissingKeys(const JsonValue& value, std::string_view object,
                         const std::string& names) {
  return value.ErrorAtEnd(
      absl::StrCat(std::string(object), " without ", names, ", expected every required key"));
}

}  // namespace tidepool::io
