// SPDX-License-Identifier: Apache-2.0
// Takes the events of a graph's JSON.
#include "lib/graph/graph_json_handler.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "lib/io/quote.h"

namespace tidepool::graph {

GraphHandler::Place GraphHandler::Around(Place place) {
  using enum Place;
  constexpr std::array<Place, 14> kAround = {
      kStart, kStart,         kGraph,     kDataList,       kGraph, kTaskList, kTask,
      kTask,  kAlgorithmList, kAlgorithm, kMicroBatchList, kTask,  kGraph,    kAlgorithm};
  return kAround[static_cast<std::size_t>(place)];
}

const ObjectKeys& GraphHandler::keys() const {
  switch (place_) {
    case Place::kDatum:
      return kDataKeys;
    case Place::kTask:
      return kTaskKeys;
    case Place::kAlgorithm:
      return kAlgorithmKeys;
    case Place::kMicroBatch:
      return kMicroBatchKeys;
    default:
      return kGraphKeys;
  }
}

bool GraphHandler::Fail(const std::string& what) {
  line_ = input_.line();
  status_ = absl::InvalidArgumentError(what);
  return false;
}

bool GraphHandler::FailPlace(const std::string& shown) {
  switch (place_) {
    case Place::kStart:
      return Fail(absl::StrCat(shown, ", expected a task graph: an object"));
    case Place::kNames:
      return Fail(absl::StrCat(shown, " in ", KeyName(key_), ", expected names of data"));
    case Place::kBatchList:
      return Fail(absl::StrCat(shown, " in batches, expected whole numbers"));
    case Place::kCostList:
      return Fail(absl::StrCat(shown, " in ", KeyName(key_), ", expected an array of ",
                               ExpectedValue(key_), " or null for each batch"));
    case Place::kDataList:
    case Place::kTaskList:
    case Place::kAlgorithmList:
    case Place::kMicroBatchList:
      return Fail(absl::StrCat(shown, " in an array of objects, expected an object"));
    case Place::kParameters:
      return Fail(absl::StrCat(layer_key_.empty() ? "kind" : std::string(layer_key_),
                               " of parameters is ", shown, ", expected ",
                               layer_key_.empty() ? "a text" : "a whole number"));
    default:
      return Fail(absl::StrCat(KeyName(key_), " of ", std::string(keys().object), " is ", shown,
                               ", expected ", ExpectedValue(key_)));
  }
}

bool GraphHandler::Null() {
  input_.SawToken();
  if (place_ != Place::kCostList) return FailPlace("null");
  file_.AddMissingCost(key_);
  return true;
}

bool GraphHandler::Bool(bool value) {
  input_.SawToken();
  const bool is_taken = place_ == Place::kTask && file_.SetFlag(key_, value);
  return is_taken || FailPlace(value ? "true" : "false");
}

bool GraphHandler::RawNumber(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view number(text, size);
  bool is_taken = false;
  switch (place_) {
    case Place::kGraph:
    case Place::kDatum:
    case Place::kTask:
    case Place::kAlgorithm:
    case Place::kMicroBatch:
      is_taken = file_.SetNumber(key_, number);
      break;
    case Place::kParameters:
      is_taken = !layer_key_.empty() && file_.SetLayerNumber(number);
      break;
    case Place::kBatchList:
      is_taken = file_.AddBatch(number);
      break;
    case Place::kCostList:
      is_taken = file_.AddCost(key_, number);
      break;
    default:
      break;
  }
  return is_taken || FailPlace(std::string(number.substr(0, 40)));
}

bool GraphHandler::String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view value(text, size);
  switch (place_) {
    case Place::kNames:
      file_.AddUse(key_, value);
      return true;
    case Place::kParameters:
      if (!layer_key_.empty()) break;
      file_.SetLayerKind(value);
      return true;
    case Place::kGraph:
    case Place::kDatum:
    case Place::kTask:
    case Place::kAlgorithm:
    case Place::kMicroBatch:
      if (file_.SetText(keys(), key_, value)) return true;
      break;
    default:
      break;
  }
  return FailPlace(absl::StrCat("the text ", io::Quoted(value)));
}

bool GraphHandler::Repeated(std::string_view name, std::string_view object) {
  return Fail(absl::StrCat("the key ", io::Quoted(name), " is in ", std::string(object),
                           " twice, expected it once"));
}

bool GraphHandler::LayerKey(std::string_view name) {
  if (name == "kind") {
    if (seen() != 0) return Repeated(name, "parameters");
    seen() = 1;
    layer_key_ = {};
    return true;
  }
  layer_key_ = LayerFieldCalled(name);
  if (layer_key_.empty()) {
    return Fail(absl::StrCat("the unknown key ", io::Quoted(name),
                             " in parameters, expected kind and the numbers of that kind"));
  }
  return file_.AddLayerNumber(layer_key_) || Repeated(name, "parameters");
}

bool GraphHandler::Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
  input_.SawToken();
  const std::string_view name(text, size);
  if (place_ == Place::kParameters) return LayerKey(name);
  const ObjectKeys& known = keys();
  const std::optional<graph::Key> key = KeyCalled(name, known);
  if (!key.has_value()) {
    return Fail(absl::StrCat("the unknown key ", io::Quoted(name), " in ",
                             std::string(known.object), ", expected ",
                             NamesOf(known.required | known.optional)));
  }
  key_ = *key;
  if ((seen() & Bit(key_)) != 0) return Repeated(name, known.object);
  seen() |= Bit(key_);
  if (key_ == graph::Key::kBytesPerSample) file_.SawFamilyPart(input_.line());
  if (key_ >= kFirstOfVersion2 && newer_key_ == graph::Key::kNone) {
    newer_key_ = key_;
    newer_line_ = input_.line();
  }
  return true;
}

// Begins the object that an array or a key holds.
bool GraphHandler::StartElement() {
  switch (place_) {
    case Place::kStart:
      place_ = Place::kGraph;
      return true;
    case Place::kDataList:
      place_ = Place::kDatum;
      file_.StartDatum(input_.line());
      return true;
    case Place::kTaskList:
      place_ = Place::kTask;
      file_.StartTask(input_.line());
      return true;
    case Place::kAlgorithmList:
      place_ = Place::kAlgorithm;
      file_.StartAlgorithm();
      return true;
    case Place::kMicroBatchList:
      place_ = Place::kMicroBatch;
      file_.StartMicroBatch();
      return true;
    case Place::kTask:
      if (key_ != graph::Key::kParameters) return false;
      place_ = Place::kParameters;
      file_.StartParameters();
      return true;
    default:
      return false;
  }
}

bool GraphHandler::StartObject() {
  input_.SawToken();
  if (!StartElement()) return FailPlace("an object");
  seen() = 0;
  return true;
}

// Returns the required keys that the object lacks. Sizes have a fixed part, a part per sample, or
// both.
KeySet GraphHandler::Missing() {
  const KeySet missing = keys().required & ~seen();
  const bool has_size = (seen() & Bit(graph::Key::kBytesPerSample)) != 0;
  return has_size ? missing & ~Bit(graph::Key::kBytes) : missing;
}

bool GraphHandler::EndGraph() {
  constexpr KeySet kBoth = SetOf(graph::Key::kBatch, graph::Key::kBatches);
  if ((seen() & kBoth) == kBoth) {
    return Fail("a graph with batch and batches, expected batches for a graph at any batch");
  }
  if (file_.version() > 1 || newer_key_ == graph::Key::kNone) return true;
  Fail(absl::StrCat("the key '", KeyName(newer_key_),
                    "' is of version 2 in a graph of version 1, expected tidepool_graph 2"));
  line_ = newer_line_;
  return false;
}

bool GraphHandler::EndObject(rapidjson::SizeType /*members*/) {
  input_.SawToken();
  if (place_ == Place::kParameters) {
    if (absl::Status status = file_.EndParameters(); !status.ok()) {
      return Fail(std::string(status.message()));
    }
  } else if (const KeySet missing = Missing(); missing != 0) {
    return Fail(absl::StrCat(std::string(keys().object), " without ", NamesOf(missing),
                             ", expected every required key"));
  }
  if (place_ == Place::kGraph && !EndGraph()) return false;
  if (place_ == Place::kDatum) file_.EndDatum(seen());
  place_ = Around(place_);
  return true;
}

// Begins the array that a key holds.
bool GraphHandler::StartList() {
  using graph::Key;
  switch (key_) {
    case Key::kData:
      place_ = Place::kDataList;
      return true;
    case Key::kTasks:
      place_ = Place::kTaskList;
      return true;
    case Key::kBatches:
      place_ = Place::kBatchList;
      file_.StartBatches();
      return true;
    case Key::kAlgorithms:
      place_ = Place::kAlgorithmList;
      return true;
    case Key::kMicroBatches:
      place_ = Place::kMicroBatchList;
      return true;
    case Key::kSeconds:
    case Key::kWorkspace:
      place_ = Place::kCostList;
      file_.StartCosts(key_, input_.line());
      return true;
    case Key::kReads:
    case Key::kWrites:
    case Key::kUpdates:
      place_ = Place::kNames;
      return true;
    default:
      return false;
  }
}

bool GraphHandler::StartArray() {
  input_.SawToken();
  const bool has_keys = place_ == Place::kGraph || place_ == Place::kDatum ||
                        place_ == Place::kTask || place_ == Place::kAlgorithm ||
                        place_ == Place::kMicroBatch;
  return (has_keys && StartList()) || FailPlace("an array");
}

bool GraphHandler::EndArray(rapidjson::SizeType /*elements*/) {
  input_.SawToken();
  place_ = Around(place_);
  return true;
}

}  // namespace tidepool::graph
