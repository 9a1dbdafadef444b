// SPDX-License-Identifier: Apache-2.0
// The objects of graph files (docs/formats/task_graph.md), as tables of their fields.
#include "lib/training/graph/graph_json_reader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/io/json_object.h"
#include "lib/base/io/json_tree.h"
#include "lib/base/text/quote.h"
#include "lib/training/graph/layer_fields.h"
#include "lib/training/graph/parse_number.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/layer_parameters.h"

namespace tidepool::graph {
namespace {

using io::JsonField;
using io::JsonValue;
using io::kToMember;
using enum io::JsonNeed;

struct LayerNumbers {
  std::string kind;
  std::vector<std::pair<std::string_view, std::int64_t>> numbers;  // names of fields
};

// One default of each kind.
template <std::size_t... kAt>
std::array<LayerParameters, sizeof...(kAt)> KindsAt(std::index_sequence<kAt...> /*at*/) {
  return {LayerParameters(std::in_place_index<kAt + 1>)...};
}

std::array<LayerParameters, std::variant_size_v<LayerParameters> - 1> AllKinds() {
  return KindsAt(std::make_index_sequence<std::variant_size_v<LayerParameters> - 1>());
}

std::string FieldNames(const LayerParameters& parameters) {
  std::string names;
  ForEachField(parameters, [&](const auto& field, std::int64_t /*number*/) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(field.name));
  });
  return names;
}

bool SetField(std::string_view name, std::int64_t number, LayerParameters& parameters) {
  bool is_known = false;
  ForEachField(parameters, [&](const auto& field, std::int64_t& its) {
    if (field.name != name) return;
    its = number;
    is_known = true;
  });
  return is_known;
}

// Returns the field of any kind of layer with that name, or no text.
std::string_view LayerFieldCalled(std::string_view name) {
  std::string_view known;
  for (const LayerParameters& kind : AllKinds()) {
    ForEachField(kind, [&](const auto& field, std::int64_t /*number*/) {
      if (field.name == name) known = field.name;
    });
  }
  return known;
}

// Returns the names of all kinds, with commas between them.
std::string LayerKinds() {
  std::string names;
  for (const LayerParameters& kind : AllKinds()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(LayerParametersName(kind)));
  }
  return names;
}

// Returns the parameters; numbers that are not given keep their defaults. InvalidArgument for an
// unknown kind, and for a number that the kind does not have.
absl::StatusOr<LayerParameters> ToLayerParameters(const LayerNumbers& layer) {
  for (LayerParameters& kind : AllKinds()) {
    if (LayerParametersName(kind) != layer.kind) continue;
    for (const auto& [name, number] : layer.numbers) {
      if (SetField(name, number, kind)) continue;
      return absl::InvalidArgumentError(absl::StrCat("the unknown key ", text::Quoted(name), " in ",
                                                     layer.kind, " parameters, expected kind, ",
                                                     FieldNames(kind)));
    }
    return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("kind of parameters is ", text::Quoted(layer.kind),
                                                 ", expected one of ", LayerKinds()));
}

constexpr std::string_view kText = "a text";
constexpr std::string_view kWhole = "a whole number";
constexpr std::string_view kObjects = "an array of objects";
constexpr std::string_view kNames = "an array of names of data";
constexpr std::string_view kHomes = "device, host or nowhere";
constexpr std::string_view kTypes =
    "unknown, float64, float32, tensor-float32, float16, bfloat16, int64, int32, int8 or uint8";
constexpr std::string_view kSeconds = "a number from 0 to 10^9";

// The fields of version 2.
constexpr std::string_view kNewer[] = {
    "before",    "after",        "type",          "gradients", "may_rerun", "parameters",
    "data_type", "compute_type", "micro_batches", "algorithm", "samples",   "bytes_per_sample",
    "batches"};

// A field of an enumeration, by the names of its values up to `kLast`.
template <auto kMember, auto kLast, auto kNameOf>
constexpr auto kNamed = [](const JsonValue& value, auto& target) {
  for (int i = 0; value.kind() == io::JsonKind::kText && i <= static_cast<int>(kLast); ++i) {
    const auto named = static_cast<decltype(kLast)>(i);
    if (value.text() != kNameOf(named)) continue;
    target.*kMember = named;
    return true;
  }
  return false;
};
template <auto kMember>
constexpr auto kType = kNamed<kMember, DataType::kUint8, DataTypeName>;
template <auto kMember>
constexpr auto kHome = kNamed<kMember, DataHome::kNowhere, DataHomeName>;

bool ToWhole(const JsonValue& value, std::int64_t* whole) { return value.To(whole); }

bool ToSeconds(const JsonValue& value, double* seconds) {
  return value.kind() == io::JsonKind::kNumber && ParseSeconds(value.text(), seconds);
}

struct Datum : GraphData {
  std::int64_t bytes_per_sample = 0;
};

constexpr JsonField<Datum> kDatumFields[] = {
    {"name", kRequired, kText, kToMember<&Datum::name>},
    {"bytes", kOptional, kWhole, kToMember<&Datum::bytes>},
    {"kind", kRequired,
     "input, weight, activation, gradient, weight-gradient or (version 2) optimizer-state",
     kNamed<&Datum::kind, DataKind::kOptimizerState, DataKindName>},
    {"before", kOptional, kHomes, kHome<&Datum::before>},
    {"after", kOptional, kHomes, kHome<&Datum::after>},
    {"type", kOptional, kTypes, kType<&Datum::type>},
    {"bytes_per_sample", kOptional, kWhole, kToMember<&Datum::bytes_per_sample>}};
constexpr io::JsonObject<Datum> kDatum = {"a datum", kDatumFields};

constexpr JsonField<MicroBatch> kMicroBatchFields[] = {
    {"algorithm", kRequired, kText, kToMember<&MicroBatch::algorithm>},
    {"samples", kRequired, kWhole, kToMember<&MicroBatch::samples>}};
constexpr io::JsonObject<MicroBatch> kMicroBatch = {"a micro-batch", kMicroBatchFields};

// An algorithm has numbers, or lists of them for the batches of a family.
struct Algorithm : TaskAlgorithm {
  GraphFile::CostLists lists = {};
  std::int64_t list_line = 0;  // of the first list
};

// Takes one number, or a list with null where the task does not have the algorithm.
template <typename Number, typename To>
absl::StatusOr<bool> TakeCosts(const JsonValue& value, To to, std::string_view expected,
                               Number* number, std::vector<Number>* list, bool* has_list,
                               std::int64_t* list_line) {
  if (value.kind() != io::JsonKind::kArray) return to(value, number);
  if (*list_line == 0) *list_line = value.line();
  *has_list = true;
  return io::TakeArray(value, [&](const JsonValue& cost) {
    Number& one = list->emplace_back(-1);
    if (cost.kind() == io::JsonKind::kNull || to(cost, &one)) return absl::OkStatus();
    return cost.Error(absl::StrCat(cost.Shown(), " in ", std::string(value.name()),
                                   ", expected an array of ", std::string(expected),
                                   " or null for each batch"));
  });
}

constexpr JsonField<Algorithm> kAlgorithmFields[] = {
    {"name", kRequired, kText, kToMember<&Algorithm::name>},
    {"seconds", kRequired, kSeconds,
     [](const JsonValue& value, Algorithm& its) {
       return TakeCosts(value, ToSeconds, kSeconds, &its.seconds, &its.lists.seconds,
                        &its.lists.has_seconds, &its.list_line);
     }},
    {"workspace", kOptional, kWhole,
     [](const JsonValue& value, Algorithm& its) {
       return TakeCosts(value, ToWhole, kWhole, &its.workspace_bytes, &its.lists.workspaces,
                        &its.lists.has_workspaces, &its.list_line);
     }},
    {"micro_batches", kOptional, kObjects, [](const JsonValue& value, Algorithm& its) {
       return io::TakeArray(value, [&](const JsonValue& part) {
         return io::ReadObject(part, kMicroBatch, its.micro_batches.emplace_back());
       });
     }}};
constexpr io::JsonObject<Algorithm> kAlgorithm = {"an algorithm", kAlgorithmFields};

struct Task : GraphTask {
  GraphFile* file = nullptr;
};

absl::Status ReadAlgorithm(const JsonValue& value, Task& task) {
  Algorithm its;
  if (absl::Status status = io::ReadObject(value, kAlgorithm, its); !status.ok()) return status;
  if (its.list_line > 0) {
    if (task.file->family_line == 0) task.file->family_line = its.list_line;
    its.lists.task = task.file->graph.tasks.size();
    its.lists.algorithm = task.algorithms.size();
    task.file->cost_lists.push_back(std::move(its.lists));
  }
  task.algorithms.push_back(std::move(its));
  return absl::OkStatus();
}

template <auto kMember>
constexpr auto kUses = [](const JsonValue& value, Task& task) {
  return io::TakeArray(value, [&](const JsonValue& use) {
    if (use.kind() != io::JsonKind::kText) {
      return use.Error(
          absl::StrCat(use.Shown(), " in ", std::string(value.name()), ", expected names of data"));
    }
    (task.*kMember).push_back(task.file->names.Number(use.text()));
    return absl::OkStatus();
  });
};

// Takes a number of a layer of any kind. The kind may follow.
absl::Status TakeLayerNumber(const JsonValue& value, LayerNumbers& layer) {
  const std::string_view name = LayerFieldCalled(value.name());
  if (name.empty()) {
    return io::UnknownKey(value, "parameters", "kind and the numbers of that kind");
  }
  for (const auto& [other, number] : layer.numbers) {
    if (other == name) return io::RepeatedKey(value, "parameters");
  }
  const bool is_taken = value.To(&layer.numbers.emplace_back(name, 0).second);
  return is_taken ? absl::OkStatus() : io::WrongValue(value, "parameters", kWhole);
}

absl::StatusOr<bool> TakeParameters(const JsonValue& value, Task& task) {
  if (value.kind() != io::JsonKind::kObject) return false;
  LayerNumbers layer;
  bool has_kind = false;
  absl::Status status = value.ForEach([&](const JsonValue& member) {
    if (member.name() != "kind") return TakeLayerNumber(member, layer);
    if (std::exchange(has_kind, true)) return io::RepeatedKey(member, "parameters");
    return member.To(&layer.kind) ? absl::OkStatus() : io::WrongValue(member, "parameters", kText);
  });
  if (!status.ok()) return status;
  absl::StatusOr<LayerParameters> parameters = ToLayerParameters(layer);
  if (!parameters.ok()) return value.ErrorAtEnd(std::string(parameters.status().message()));
  task.parameters = *std::move(parameters);
  return true;
}

constexpr JsonField<Task> kTaskFields[] = {
    {"name", kRequired, kText, kToMember<&Task::name>},
    {"layer", kOptional, kText, kToMember<&Task::layer>},
    {"operation", kOptional, kText, kToMember<&Task::operation>},
    {"phase", kRequired, "forward, backward or update",
     kNamed<&Task::phase, TaskPhase::kUpdate, TaskPhaseName>},
    {"reads", kOptional, kNames, kUses<&Task::reads>},
    {"writes", kOptional, kNames, kUses<&Task::writes>},
    {"updates", kOptional, kNames, kUses<&Task::updates>},
    {"algorithms", kRequired, kObjects,
     [](const JsonValue& value, Task& task) {
       return io::TakeArray(
           value, [&](const JsonValue& algorithm) { return ReadAlgorithm(algorithm, task); });
     }},
    {"gradients", kOptional, "all, data or weights",
     kNamed<&Task::gradients, TaskGradients::kWeights, TaskGradientsName>},
    {"may_rerun", kOptional, "true or false", kToMember<&Task::may_rerun>},
    {"parameters", kOptional, "an object",
     [](const JsonValue& value, Task& task) { return TakeParameters(value, task); }},
    {"data_type", kOptional, kTypes, kType<&Task::data_type>},
    {"compute_type", kOptional, kTypes, kType<&Task::compute_type>}};
constexpr io::JsonObject<Task> kTask = {"a task", kTaskFields};

absl::Status ReadTask(const JsonValue& value, GraphFile& file) {
  Task task;
  task.file = &file;
  if (absl::Status status = io::ReadObject(value, kTask, task); !status.ok()) return status;
  file.task_lines.push_back(value.line());
  file.graph.tasks.push_back(std::move(task));
  return absl::OkStatus();
}

absl::Status ReadDatum(const JsonValue& value, GraphFile& file) {
  Datum datum;
  if (absl::Status status = io::ReadObject(value, kDatum, datum); !status.ok()) return status;
  const std::optional<JsonValue> per_sample = value.Find("bytes_per_sample");
  if (per_sample.has_value() && file.family_line == 0) file.family_line = per_sample->line();
  if (!per_sample.has_value() && !value.Find("bytes").has_value()) {
    return io::MissingKeys(value, kDatum.name, "bytes");
  }
  if (!value.Find("before").has_value()) datum.before = HomeBefore(datum.kind);
  if (!value.Find("after").has_value()) datum.after = HomeAfter(datum.kind);
  file.bytes_per_sample.push_back(datum.bytes_per_sample);
  file.data_lines.push_back(value.line());
  file.graph.data.push_back(std::move(datum));
  return absl::OkStatus();
}

template <auto kMember>
constexpr auto kToGraph =
    [](const JsonValue& value, GraphFile& file) { return kToMember<kMember>(value, file.graph); };
template <auto kRead>
constexpr auto kReadEach = [](const JsonValue& value, GraphFile& file) {
  return io::TakeArray(value, [&](const JsonValue& element) { return kRead(element, file); });
};

constexpr JsonField<GraphFile> kGraphFields[] = {
    {"tidepool_graph", kRequired, "1 or 2",
     [](const JsonValue& value, GraphFile& /*file*/) {
       return value.kind() == io::JsonKind::kNumber && (value.text() == "1" || value.text() == "2");
     }},
    {"name", kOptional, kText, kToGraph<&TaskGraph::name>},
    {"batch", kOptional, kWhole, kToGraph<&TaskGraph::batch>},
    {"data", kRequired, kObjects, kReadEach<ReadDatum>},
    {"tasks", kRequired, kObjects, kReadEach<ReadTask>},
    {"gpu", kOptional, kText, kToGraph<&TaskGraph::gpu>},
    {"link", kOptional, "a number of bytes a second from 0 to 10^18",
     [](const JsonValue& value, GraphFile& file) {
       return value.kind() == io::JsonKind::kNumber &&
              ParseLink(value.text(), &file.graph.link_bytes_per_second);
     }},
    {"batches", kOptional, "an array of whole numbers",
     [](const JsonValue& value, GraphFile& file) {
       file.has_batches = true;
       return io::TakeArray(value, [&](const JsonValue& batch) {
         if (batch.To(&file.batches.emplace_back())) return absl::OkStatus();
         return batch.Error(absl::StrCat(batch.Shown(), " in batches, expected whole numbers"));
       });
     }}};
constexpr io::JsonObject<GraphFile> kGraph = {"a graph", kGraphFields};

// Refuses the fields of version 2.
absl::Status RefuseNewer(const JsonValue& value) {
  return value.ForEach([](const JsonValue& member) {
    if (std::find(std::begin(kNewer), std::end(kNewer), member.name()) == std::end(kNewer)) {
      return RefuseNewer(member);
    }
    return member.Error(
        absl::StrCat("the key '", std::string(member.name()),
                     "' is of version 2 in a graph of version 1, expected tidepool_graph 2"));
  });
}

absl::StatusOr<GraphFile> ReadRoot(const JsonValue& root) {
  GraphFile file;
  absl::Status status = io::ReadObject(root, kGraph, file, ", expected a task graph: an object");
  if (!status.ok()) return status;
  if (file.has_batches && root.Find("batch").has_value()) {
    return root.ErrorAtEnd(
        "a graph with batch and batches, expected batches for a graph at any batch");
  }
  if (root.Find("tidepool_graph")->text() == "1") status = RefuseNewer(root);
  if (!status.ok()) return status;
  return file;
}

}  // namespace

absl::StatusOr<GraphFile> ReadGraphFile(std::unique_ptr<io::ByteSource> source,
                                        const std::string& name) {
  return io::ReadJson(std::move(source), name, {"a task graph", io::Knows<kGraph>}, ReadRoot);
}

}  // namespace tidepool::graph
