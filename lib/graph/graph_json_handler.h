// SPDX-License-Identifier: Apache-2.0
// Walks through the JSON of a graph by the events of RapidJSON's reader: a few kinds of objects,
// each of which knows its keys. Unknown keys are refused, so nesting is never deeper than in the
// format.
#ifndef TIDEPOOL_LIB_GRAPH_GRAPH_JSON_HANDLER_H_
#define TIDEPOOL_LIB_GRAPH_GRAPH_JSON_HANDLER_H_

#include <rapidjson/reader.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "lib/graph/graph_file_builder.h"
#include "lib/graph/graph_json_keys.h"
#include "lib/io/json_input.h"

namespace tidepool::graph {

// A false result ends the reading; then status() gives the
// reason and line() the line.
class GraphHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, GraphHandler> {
 public:
  explicit GraphHandler(io::JsonInput& input) : input_(input) {}

  bool Null();
  bool Bool(bool value);
  bool RawNumber(const char* text, rapidjson::SizeType size, bool copy);
  bool String(const char* text, rapidjson::SizeType size, bool copy);
  bool Key(const char* text, rapidjson::SizeType size, bool copy);
  bool StartObject();
  bool EndObject(rapidjson::SizeType members);
  bool StartArray();
  bool EndArray(rapidjson::SizeType elements);

  const absl::Status& status() const { return status_; }
  std::int64_t line() const { return line_; }
  GraphFile&& Take() { return file_.Take(); }

 private:
  enum class Place : std::uint8_t {
    kStart,
    kGraph,
    kDataList,
    kDatum,
    kTaskList,
    kTask,
    kNames,  // the names of the data that a task reads, writes or updates
    kAlgorithmList,
    kAlgorithm,
    kMicroBatchList,
    kMicroBatch,
    kParameters,  // of a layer
    kBatchList,
    kCostList,  // seconds or workspaces of an algorithm, by batch
  };
  static Place Around(Place place);

  const ObjectKeys& keys() const;
  // Returns the keys seen in the object at this level.
  KeySet& seen() { return seen_[static_cast<std::size_t>(place_)]; }

  bool Fail(const std::string& what);
  bool FailPlace(const std::string& shown);
  bool LayerKey(std::string_view name);
  bool Repeated(std::string_view name, std::string_view object);
  bool StartElement();
  bool StartList();
  KeySet Missing();
  bool EndGraph();

  io::JsonInput& input_;
  GraphFileBuilder file_;
  Place place_ = Place::kStart;
  graph::Key key_ = graph::Key::kNone;
  std::string_view layer_key_ = {};           // a field of parameters; "" for their kind
  std::array<KeySet, 14> seen_ = {};          // by place
  graph::Key newer_key_ = graph::Key::kNone;  // the first of version 2, and its line
  std::int64_t newer_line_ = 0;
  std::int64_t line_ = 1;
  absl::Status status_;
};

}  // namespace tidepool::graph

#endif  // TIDEPOOL_LIB_GRAPH_GRAPH_JSON_HANDLER_H_
