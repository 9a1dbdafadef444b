// SPDX-License-Identifier: Apache-2.0
// Reads JSON by RapidJSON's events, and says where and why the reading ended.
#ifndef TIDEPOOL_LIB_BASE_IO_JSON_EVENTS_H_
#define TIDEPOOL_LIB_BASE_IO_JSON_EVENTS_H_

#include <rapidjson/reader.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "lib/base/io/json_input.h"

namespace tidepool::io {

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
