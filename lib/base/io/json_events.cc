// SPDX-License-Identifier: Apache-2.0
#include "lib/base/io/json_events.h"

#include <rapidjson/error/en.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/io/quote.h"

namespace tidepool::io {

absl::Status StatusOfJson(const rapidjson::ParseResult& result, JsonInput& input,
                          const JsonFault& fault, std::string_view name,
                          std::string_view expected) {
  if (!input.status().ok()) return AboutLine(name, input.line(), input.status());
  if (result.Code() == rapidjson::kParseErrorTermination) {
    return AboutLine(name, fault.line, fault.status);
  }
  if (!result.IsError() && input.is_at_end()) return absl::OkStatus();
  if (input.is_at_end()) {
    return AboutLine(
        name, input.line(),
        absl::InvalidArgumentError("the file is cut off: its JSON ends early, expected all of it"));
  }
  const std::string why = result.IsError() ? rapidjson::GetParseError_En(result.Code())
                                           : "There is a zero byte after the value.";
  return AboutLine(name, input.line(),
                   absl::InvalidArgumentError(
                       absl::StrCat("broken JSON (", why, "), expected ", std::string(expected))));
}

}  // namespace tidepool::io
