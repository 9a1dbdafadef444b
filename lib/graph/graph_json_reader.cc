// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of graphs, with one handler of RapidJSON's events.
#include "lib/graph/graph_json_reader.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "lib/graph/graph_json_handler.h"
#include "lib/io/json_input.h"
#include "lib/io/quote.h"

namespace tidepool::graph {
namespace {

using io::JsonInput;

absl::Status At(const std::string& name, std::int64_t line, std::string_view what) {
  return io::AboutLine(name, line, absl::InvalidArgumentError({what.data(), what.size()}));
}

// Returns the reason why RapidJSON stopped.
absl::Status StatusOfParsing(const rapidjson::ParseResult& result, io::JsonInput& input,
                             const GraphHandler& handler, const std::string& name) {
  if (!input.status().ok()) {
    return At(name, input.line(), std::string(input.status().message()));
  }
  if (result.Code() == rapidjson::kParseErrorTermination) {
    return At(name, handler.line(), std::string(handler.status().message()));
  }
  if (result.IsError() && input.is_at_end()) {
    return At(name, input.line(), "the file is cut off: its JSON ends early, expected all of it");
  }
  if (result.IsError() || !input.is_at_end()) {
    const std::string why = result.IsError() ? rapidjson::GetParseError_En(result.Code())
                                             : "There is a zero byte after the value.";
    return At(name, input.line(), absl::StrCat("broken JSON (", why, "), expected a task graph"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GraphFile> ReadGraphFile(io::ByteSource& source, const std::string& name) {
  io::JsonInput input(source);
  GraphHandler handler(input);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseIterativeFlag |
                              rapidjson::kParseValidateEncodingFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(input, handler);
  absl::Status status = StatusOfParsing(result, input, handler, name);
  if (!status.ok()) return status;
  return handler.Take();
}

}  // namespace tidepool::graph
