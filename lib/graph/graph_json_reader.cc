// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of graphs: RapidJSON's events walk through a few kinds of objects, each of which
// knows its keys. Unknown keys are refused, so nesting is never deeper than in the format.
#include "lib/graph/graph_json_reader.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/graph/parse_number.h"
#include "lib/io/json_input.h"
#include "lib/io/json_number.h"
#include "lib/io/quote.h"

namespace tidepool::graph {
namespace {

using io::JsonInput;

enum class Key : std::uint8_t {
  kVersion,
  kName,
  kBatch,
  kData,
  kTasks,
  kBytes,
  kKind,
  kLayer,
  kOperation,
  kPhase,
  kReads,
  kWrites,
  kUpdates,
  kAlgorithms,
  kSeconds,
  kWorkspace,
  kGpu,
  kLink,
  kNone,
};
constexpr std::array<std::string_view, 18> kKeyNames = {
    "tidepool_graph", "name",       "batch",     "data",      "tasks", "bytes",
    "kind",           "layer",      "operation", "phase",     "reads", "writes",
    "updates",        "algorithms", "seconds",   "workspace", "gpu",   "link"};

std::string KeyName(Key key) { return std::string(kKeyNames[static_cast<std::size_t>(key)]); }

constexpr unsigned Bit(Key key) { return 1U << static_cast<unsigned>(key); }

// A kind of object: its required and its optional keys.
struct Keys {
  const char* what;
  unsigned required;
  unsigned optional;
};
constexpr Keys kGraphKeys = {"a graph", Bit(Key::kVersion) | Bit(Key::kData) | Bit(Key::kTasks),
                             Bit(Key::kName) | Bit(Key::kBatch) | Bit(Key::kGpu) | Bit(Key::kLink)};
constexpr Keys kDataKeys = {"a datum", Bit(Key::kName) | Bit(Key::kBytes) | Bit(Key::kKind), 0};
constexpr Keys kTaskKeys = {"a task", Bit(Key::kName) | Bit(Key::kPhase) | Bit(Key::kAlgorithms),
                            Bit(Key::kLayer) | Bit(Key::kOperation) | Bit(Key::kReads) |
                                Bit(Key::kWrites) | Bit(Key::kUpdates)};
constexpr Keys kAlgorithmKeys = {"an algorithm", Bit(Key::kName) | Bit(Key::kSeconds),
                                 Bit(Key::kWorkspace)};

std::string NamesOf(unsigned keys) {
  std::string names;
  for (std::size_t i = 0; i < kKeyNames.size(); ++i) {
    if ((keys >> i & 1) == 0) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(kKeyNames[i]));
  }
  return names;
}

// The handler of RapidJSON's events. A false result ends the reading; then status() gives the
// reason and line() the line.
class GraphHandler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, GraphHandler> {
 public:
  explicit GraphHandler(io::JsonInput& input) : input_(input) {}

  bool Null() { return Other("null"); }
  bool Bool(bool value) { return Other(value ? "true" : "false"); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool copy);
  bool String(const char* text, rapidjson::SizeType size, bool copy);
  bool Key(const char* text, rapidjson::SizeType size, bool copy);
  bool StartObject();
  bool EndObject(rapidjson::SizeType members);
  bool StartArray();
  bool EndArray(rapidjson::SizeType elements);

  const absl::Status& status() const { return status_; }
  std::int64_t line() const { return line_; }
  GraphFile&& Take() { return std::move(file_); }

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
  };

  const Keys& keys() const;
  // Returns the keys seen in the object at this level.
  unsigned& seen();
  TaskGraph& graph() { return file_.graph; }
  GraphTask& task() { return file_.graph.tasks.back(); }

  bool Fail(const std::string& what);
  bool FailPlace(const std::string& shown);
  bool Other(const std::string& shown);
  bool TakeText(std::string_view text);
  bool TakeNumber(std::string_view text);
  bool TakeWhole(std::string_view text, std::int64_t* value);
  bool TakeKind(std::string_view text);
  bool TakePhase(std::string_view text);
  bool TakeUse(std::string_view name);
  std::string ExpectedValue() const;

  io::JsonInput& input_;
  GraphFile file_;
  Place place_ = Place::kStart;
  graph::Key key_ = graph::Key::kNone;
  graph::Key uses_ = graph::Key::kNone;  // the current list of names
  std::array<unsigned, 9> seen_ = {};    // by kind of object
  std::int64_t line_ = 1;
  absl::Status status_;
};

const Keys& GraphHandler::keys() const {
  switch (place_) {
    case Place::kDatum:
      return kDataKeys;
    case Place::kTask:
      return kTaskKeys;
    case Place::kAlgorithm:
      return kAlgorithmKeys;
    default:
      return kGraphKeys;
  }
}

unsigned& GraphHandler::seen() { return seen_[static_cast<std::size_t>(place_)]; }

bool GraphHandler::Fail(const std::string& what) {
  line_ = input_.line();
  status_ = absl::InvalidArgumentError(what);
  return false;
}

std::string GraphHandler::ExpectedValue() const {
  using graph::Key;
  switch (key_) {
    case Key::kVersion:
      return "1";
    case Key::kBatch:
    case Key::kBytes:
    case Key::kWorkspace:
      return "a whole number";
    case Key::kSeconds:
      return "a number from 0 to 10^9";
    case Key::kLink:
      return "a number of bytes a second from 0 to 10^18";
    case Key::kData:
    case Key::kTasks:
    case Key::kAlgorithms:
      return "an array of objects";
    case Key::kReads:
    case Key::kWrites:
    case Key::kUpdates:
      return "an array of names of data";
    case Key::kKind:
      return "input, weight, activation, gradient or weight-gradient";
    case Key::kPhase:
      return "forward, backward or update";
    default:
      return "a text";
  }
}

bool GraphHandler::FailPlace(const std::string& shown) {
  switch (place_) {
    case Place::kStart:
      return Fail(absl::StrCat(shown, ", expected a task graph: an object"));
    case Place::kNames:
      return Fail(absl::StrCat(shown, " in ", KeyName(uses_), ", expected names of data"));
    case Place::kDataList:
    case Place::kTaskList:
    case Place::kAlgorithmList:
      return Fail(absl::StrCat(shown, " in an array of objects, expected an object"));
    default:
      return Fail(absl::StrCat(KeyName(key_), " of ", keys().what, " is ", shown, ", expected ",
                               ExpectedValue()));
  }
}

bool GraphHandler::Other(const std::string& shown) {
  input_.SawToken();
  return FailPlace(shown);
}

bool GraphHandler::RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  return TakeNumber({text, size});
}

bool GraphHandler::String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  return TakeText({text, size});
}

bool GraphHandler::TakeWhole(std::string_view text, std::int64_t* value) {
  return io::ParseWholeNumber(text, value) || FailPlace(std::string(text.substr(0, 40)));
}

bool GraphHandler::TakeNumber(std::string_view text) {
  using graph::Key;
  const std::string shown(text.substr(0, 40));
  if (place_ == Place::kGraph && key_ == Key::kVersion) return text == "1" || FailPlace(shown);
  if (place_ == Place::kGraph && key_ == Key::kBatch) return TakeWhole(text, &graph().batch);
  if (place_ == Place::kGraph && key_ == Key::kLink) {
    return ParseLink(text, &graph().link_bytes_per_second) || FailPlace(shown);
  }
  if (place_ == Place::kDatum && key_ == Key::kBytes) {
    return TakeWhole(text, &graph().data.back().bytes);
  }
  if (place_ == Place::kAlgorithm && key_ == Key::kWorkspace) {
    return TakeWhole(text, &task().algorithms.back().workspace_bytes);
  }
  if (place_ == Place::kAlgorithm && key_ == Key::kSeconds) {
    return ParseSeconds(text, &task().algorithms.back().seconds) || FailPlace(shown);
  }
  return FailPlace(shown);
}

bool GraphHandler::TakeKind(std::string_view text) {
  for (const DataKind kind : {DataKind::kInput, DataKind::kWeight, DataKind::kActivation,
                              DataKind::kGradient, DataKind::kWeightGradient}) {
    if (text != DataKindName(kind)) continue;
    GraphData& data = graph().data.back();
    data.kind = kind;
    data.before = HomeBefore(kind);
    data.after = HomeAfter(kind);
    return true;
  }
  return FailPlace(io::Quoted(text));
}

bool GraphHandler::TakePhase(std::string_view text) {
  for (const TaskPhase phase : {TaskPhase::kForward, TaskPhase::kBackward, TaskPhase::kUpdate}) {
    if (text != TaskPhaseName(phase)) continue;
    task().phase = phase;
    return true;
  }
  return FailPlace(io::Quoted(text));
}

bool GraphHandler::TakeUse(std::string_view name) {
  using graph::Key;
  std::vector<std::size_t>& uses = uses_ == Key::kReads    ? task().reads
                                   : uses_ == Key::kWrites ? task().writes
                                                           : task().updates;
  uses.push_back(file_.names.Number(name));
  return true;
}

bool GraphHandler::TakeText(std::string_view text) {
  using graph::Key;
  std::string* name = nullptr;
  switch (place_) {
    case Place::kGraph:
      if (key_ == Key::kName) name = &graph().name;
      if (key_ == Key::kGpu) name = &graph().gpu;
      break;
    case Place::kDatum:
      if (key_ == Key::kKind) return TakeKind(text);
      if (key_ == Key::kName) name = &graph().data.back().name;
      break;
    case Place::kTask:
      if (key_ == Key::kPhase) return TakePhase(text);
      if (key_ == Key::kName) name = &task().name;
      if (key_ == Key::kLayer) name = &task().layer;
      if (key_ == Key::kOperation) name = &task().operation;
      break;
    case Place::kNames:
      return TakeUse(text);
    case Place::kAlgorithm:
      if (key_ == Key::kName) name = &task().algorithms.back().name;
      break;
    default:
      break;
  }
  if (name == nullptr) return FailPlace(absl::StrCat("the text ", io::Quoted(text)));
  name->assign(text);
  return true;
}

bool GraphHandler::Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view name(text, size);
  const Keys& known = keys();
  std::size_t at = 0;
  while (at < kKeyNames.size() &&
         (kKeyNames[at] != name || (((known.required | known.optional) >> at) & 1) == 0)) {
    ++at;
  }
  if (at == kKeyNames.size()) {
    return Fail(absl::StrCat("the unknown key ", io::Quoted(name), " in ", known.what,
                             ", expected ", NamesOf(known.required | known.optional)));
  }
  key_ = static_cast<graph::Key>(at);
  if ((seen() >> at & 1) != 0) {
    return Fail(absl::StrCat("the key ", io::Quoted(name), " is in ", known.what,
                             " twice, expected it once"));
  }
  seen() |= 1U << at;
  return true;
}

bool GraphHandler::StartObject() {
  input_.SawToken();
  switch (place_) {
    case Place::kStart:
      place_ = Place::kGraph;
      break;
    case Place::kDataList:
      place_ = Place::kDatum;
      graph().data.emplace_back();
      file_.data_lines.push_back(input_.line());
      break;
    case Place::kTaskList:
      place_ = Place::kTask;
      graph().tasks.emplace_back();
      file_.task_lines.push_back(input_.line());
      break;
    case Place::kAlgorithmList:
      place_ = Place::kAlgorithm;
      task().algorithms.emplace_back();
      break;
    default:
      return FailPlace("an object");
  }
  seen() = 0;
  return true;
}

bool GraphHandler::EndObject(rapidjson::SizeType /*members*/) {
  input_.SawToken();
  const unsigned missing = keys().required & ~seen();
  if (missing != 0) {
    return Fail(
        absl::StrCat(keys().what, " without ", NamesOf(missing), ", expected every required key"));
  }
  place_ = place_ == Place::kGraph   ? Place::kStart
           : place_ == Place::kDatum ? Place::kDataList
           : place_ == Place::kTask  ? Place::kTaskList
                                     : Place::kAlgorithmList;
  return true;
}

bool GraphHandler::StartArray() {
  using graph::Key;
  input_.SawToken();
  if (place_ == Place::kGraph && key_ == Key::kData) {
    place_ = Place::kDataList;
  } else if (place_ == Place::kGraph && key_ == Key::kTasks) {
    place_ = Place::kTaskList;
  } else if (place_ == Place::kTask && key_ == Key::kAlgorithms) {
    place_ = Place::kAlgorithmList;
  } else if (place_ == Place::kTask &&
             (key_ == Key::kReads || key_ == Key::kWrites || key_ == Key::kUpdates)) {
    place_ = Place::kNames;
    uses_ = key_;
  } else {
    return FailPlace("an array");
  }
  return true;
}

bool GraphHandler::EndArray(rapidjson::SizeType /*elements*/) {
  input_.SawToken();
  const bool was_of_task = place_ == Place::kNames || place_ == Place::kAlgorithmList;
  place_ = was_of_task ? Place::kTask : Place::kGraph;
  return true;
}

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
