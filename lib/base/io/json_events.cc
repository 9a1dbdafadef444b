// SPDX-License-Identifier: Apache-2.0
// JSON input: fills the whole buffer before any of it is used, so that a character costs one
// comparison.
#include "lib/base/io/json_events.h"

#include <rapidjson/error/en.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"

namespace tidepool::io {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

JsonInput::JsonInput(ByteSource& source)
    : source_(source),
      buffer_(kBufferBytes),
      at_(buffer_.data()),
      end_(buffer_.data()),
      counted_(buffer_.data()) {
  Refill();
  const std::string_view beginning(at_, static_cast<std::size_t>(end_ - at_));
  if (!is_at_end_ && beginning.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    for (std::size_t i = 0; i < kByteOrderMark.size(); ++i) Take();
  }
}

std::int64_t JsonInput::line() {
  line_ += std::count(counted_, at_, '\n');
  counted_ = at_;
  return line_;
}

void JsonInput::Refill() {
  if (is_at_end_) return End();
  line();
  const auto had = static_cast<std::size_t>(end_ - buffer_.data());
  before_ += had;
  without_token_ = saw_token_ ? 0 : without_token_ + had;
  saw_token_ = false;
  if (without_token_ > kLongestToken) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("a text or number is too long, expected at most ", kLongestToken, " bytes"));
    return End();
  }
  absl::StatusOr<std::size_t> got = ReadFully(source_, buffer_.data(), buffer_.size());
  if (!got.ok()) status_ = got.status();
  if (!got.ok() || *got == 0) return End();
  at_ = counted_ = buffer_.data();
  end_ = at_ + *got;
}

void JsonInput::End() {
  is_at_end_ = true;
  buffer_[0] = '\0';
  at_ = counted_ = buffer_.data();
  end_ = at_ + 1;
}

absl::Status StatusOfJson(const rapidjson::ParseResult& result, JsonInput& input,
                          const JsonFault& fault, std::string_view name,
                          std::string_view expected) {
  if (!input.status().ok()) return text::AboutLine(name, input.line(), input.status());
  if (result.Code() == rapidjson::kParseErrorTermination) {
    return text::AboutLine(name, fault.line, fault.status);
  }
  if (!result.IsError() && input.is_at_end()) return absl::OkStatus();
  if (input.is_at_end()) {
    return text::AboutLine(
        name, input.line(),
        absl::InvalidArgumentError("the file is cut off: its JSON ends early, expected all of it"));
  }
  const std::string why = result.IsError() ? rapidjson::GetParseError_En(result.Code())
                                           : "There is a zero byte after the value.";
  return text::AboutLine(name, input.line(),
                         absl::InvalidArgumentError(absl::StrCat(
                             "broken JSON (", why, "), expected ", std::string(expected))));
}

}  // namespace tidepool::io
