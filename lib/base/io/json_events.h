// SPDX-License-Identifier: Apache-2.0
// Reads JSON by RapidJSON's events, and says where and why the reading ended.
#ifndef TIDEPOOL_LIB_BASE_IO_JSON_EVENTS_H_
#define TIDEPOOL_LIB_BASE_IO_JSON_EVENTS_H_

#include <rapidjson/reader.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/io/byte_source.h"

namespace tidepool::io {

// A stream for RapidJSON's reader over a byte source. It buffers a part of the file and counts
// lines.
class JsonInput {
 public:
  // Longest text or number. The reader keeps a token in one buffer, so a longer one is an error.
  // Between two calls of SawToken() at most this and one buffer are read.
  static constexpr std::size_t kLongestToken = std::size_t{1} << 24;

  // Reads from `source`, which must outlive the stream. Skips a byte order mark at the beginning.
  explicit JsonInput(ByteSource& source);

  // RapidJSON's concept of a stream. After the end it reads zeros.
  using Ch = char;
  char Peek() const { return *at_; }
  char Take() {
    const char taken = *at_++;
    if (at_ == end_) Refill();
    return taken;
  }
  std::size_t Tell() const { return before_ + static_cast<std::size_t>(at_ - buffer_.data()); }
  // RapidJSON requires these of every stream; only output streams use them.
  void Put(char /*c*/) {}
  void Flush() {}
  char* PutBegin() { return nullptr; }
  std::size_t PutEnd(char* /*begin*/) { return 0; }

  void SawToken() { saw_token_ = true; }
  // Whether the source was read to its end. A zero byte in the file is not the end.
  bool is_at_end() const { return is_at_end_; }
  // Returns the line of the next character. All calls together take O(bytes).
  std::int64_t line();
  // Error that ended the bytes before the end of the file, if any.
  const absl::Status& status() const { return status_; }

 private:
  void Refill();
  void End();

  ByteSource& source_;
  std::vector<char> buffer_;
  const char* at_;
  const char* end_;
  const char* counted_;  // line ends before this address are counted in line_
  std::int64_t line_ = 1;
  std::size_t before_ = 0;         // bytes before the buffer
  std::size_t without_token_ = 0;  // bytes read since the last token
  bool saw_token_ = false;
  bool is_at_end_ = false;
  absl::Status status_;
};

// A fault that a handler found, and its line. Its status is OK while the handler found no fault.
struct JsonFault {
  std::int64_t line = 1;
  absl::Status status;
};

// Returns OK when `result` and `input` are at the end of one value. Otherwise InvalidArgument,
// with `NAME:LINE: `; `expected` is the noun for the whole file, such as "a chain".
absl::Status StatusOfJson(const rapidjson::ParseResult& result, JsonInput& input,
                          const JsonFault& fault, std::string_view name, std::string_view expected);

// Reads one value. Numbers reach `handler` as texts; nested values take no stack. The handler has
// RapidJSON's functions, of which a false result ends the reading, and then line() and status() of
// the fault. Texts must be UTF-8 unless other flags are given. Errors are those of StatusOfJson.
// O(bytes).
template <unsigned kMoreFlags = rapidjson::kParseValidateEncodingFlag, typename Handler>
absl::Status ReadJsonEvents(JsonInput& input, Handler& handler, std::string_view name,
                            std::string_view expected) {
  constexpr unsigned kFlags =
      rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseIterativeFlag | kMoreFlags;
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(input, handler);
  return StatusOfJson(result, input, {handler.line(), handler.status()}, name, expected);
}

}  // namespace tidepool::io

#endif  // TIDEPOOL_LIB_BASE_IO_JSON_EVENTS_H_
