// SPDX-License-Identifier: Apache-2.0
// Writes files of graphs and families. Each datum and each task has a line of its own, so that line
// numbers in errors are useful.
#include <array>
#include <charconv>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/io/json_text.h"
#include "lib/base/text/quote.h"
#include "lib/training/graph/layer_fields.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::graph {
namespace {

// Returns the shortest text that is read as the same number.
std::string NumberText(double number) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

void AppendUses(const TaskGraph& graph, const char* key, const std::vector<std::size_t>& uses,
                std::string& json) {
  if (uses.empty()) return;
  absl::StrAppend(&json, ", \"", key, "\": [");
  const char* comma = "";
  for (const std::size_t data : uses) {
    absl::StrAppend(&json, comma, io::JsonText(graph.data[data].name));
    comma = ", ";
  }
  json += ']';
}

void AppendName(const char* key, std::string_view name, std::string& json) {
  absl::StrAppend(&json, ", \"", key, "\": \"", std::string(name), "\"");
}

// Appends the size: the fixed part, the part per sample, or both.
void AppendBytes(std::int64_t bytes, std::int64_t per_sample, std::string& json) {
  if (bytes > 0 || per_sample == 0) absl::StrAppend(&json, ", \"bytes\": ", bytes);
  if (per_sample > 0) absl::StrAppend(&json, ", \"bytes_per_sample\": ", per_sample);
}

void AppendData(const GraphData& data, std::int64_t per_sample, std::string& json) {
  absl::StrAppend(&json, "{\"name\": ", io::JsonText(data.name));
  AppendBytes(data.bytes, per_sample, json);
  AppendName("kind", DataKindName(data.kind), json);
  if (data.before != HomeBefore(data.kind)) AppendName("before", DataHomeName(data.before), json);
  if (data.after != HomeAfter(data.kind)) AppendName("after", DataHomeName(data.after), json);
  if (data.type != DataType::kUnknown) AppendName("type", DataTypeName(data.type), json);
  json += '}';
}

// Appends the numbers that differ from their defaults.
void AppendParameters(const LayerParameters& parameters, std::string& json) {
  if (parameters.index() == 0) return;
  absl::StrAppend(&json, ", \"parameters\": {\"kind\": \"",
                  std::string(LayerParametersName(parameters)), "\"");
  ForEachField(parameters, [&](const auto& field, std::int64_t number) {
    using Layer = typename std::remove_cvref_t<decltype(field)>::Layer;
    if (number == Layer{}.*field.number) return;
    absl::StrAppend(&json, ", \"", std::string(field.name), "\": ", number);
  });
  json += '}';
}

void AppendMicroBatches(const std::vector<MicroBatch>& parts, std::string& json) {
  if (parts.empty()) return;
  json += ", \"micro_batches\": [";
  const char* comma = "";
  for (const MicroBatch& part : parts) {
    absl::StrAppend(&json, comma, "{\"algorithm\": ", io::JsonText(part.algorithm),
                    ", \"samples\": ", part.samples, "}");
    comma = ", ";
  }
  json += ']';
}

void AppendAlgorithms(const std::vector<TaskAlgorithm>& algorithms, std::string& json) {
  json += ", \"algorithms\": [";
  const char* comma = "";
  for (const TaskAlgorithm& algorithm : algorithms) {
    absl::StrAppend(&json, comma, "{\"name\": ", io::JsonText(algorithm.name),
                    ", \"seconds\": ", NumberText(algorithm.seconds),
                    ", \"workspace\": ", algorithm.workspace_bytes);
    AppendMicroBatches(algorithm.micro_batches, json);
    json += '}';
    comma = ", ";
  }
  json += ']';
}

// Appends a task without its algorithms.
void AppendTask(const TaskGraph& graph, const GraphTask& task, std::string& json) {
  absl::StrAppend(&json, "{\"name\": ", io::JsonText(task.name),
                  ", \"layer\": ", io::JsonText(task.layer));
  absl::StrAppend(&json, ", \"operation\": ", io::JsonText(task.operation));
  AppendName("phase", TaskPhaseName(task.phase), json);
  if (task.gradients != TaskGradients::kAll) {
    AppendName("gradients", TaskGradientsName(task.gradients), json);
  }
  AppendUses(graph, "reads", task.reads, json);
  AppendUses(graph, "writes", task.writes, json);
  AppendUses(graph, "updates", task.updates, json);
  if (task.may_rerun) json += ", \"may_rerun\": true";
  AppendParameters(task.parameters, json);
  if (task.data_type != DataType::kUnknown) {
    AppendName("data_type", DataTypeName(task.data_type), json);
  }
  if (task.compute_type != DataType::kUnknown) {
    AppendName("compute_type", DataTypeName(task.compute_type), json);
  }
}

// Appends the numbers of all batches, or one number if they have one; null where an algorithm is
// missing.
template <typename Number, typename Text>
void AppendList(const char* key, const std::vector<Number>& numbers,
                const std::vector<double>& seconds, Text text, std::string& json) {
  absl::StrAppend(&json, ", \"", key, "\": ");
  if (numbers.size() == 1) return absl::StrAppend(&json, text(numbers.front()));
  const char* comma = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool is_missing = seconds[seconds.size() == 1 ? 0 : i] < 0;
    absl::StrAppend(&json, comma, is_missing ? "null" : text(numbers[i]));
    comma = ", ";
  }
  json += ']';
}

void AppendCosts(const std::vector<AlgorithmCosts>& costs, std::string& json) {
  json += ", \"algorithms\": [";
  const char* comma = "";
  for (const AlgorithmCosts& its : costs) {
    absl::StrAppend(&json, comma, "{\"name\": ", io::JsonText(its.name));
    AppendList("seconds", its.seconds, its.seconds, NumberText, json);
    const auto whole = [](std::int64_t bytes) { return absl::StrCat(bytes); };
    AppendList("workspace", its.workspace_bytes, its.seconds, whole, json);
    json += '}';
    comma = ", ";
  }
  json += ']';
}

void AppendBatches(const std::vector<std::int64_t>& batches, std::string& json) {
  absl::StrAppend(&json, ",\n \"batches\": [", absl::StrJoin(batches, ", "), "]");
}

// Returns the text of `graph`. With a family, which has that graph, it has the family's sizes per
// sample and its table.
std::string JsonOf(const TaskGraph& graph, const GraphFamily* family) {
  std::string json = absl::StrCat("{\"tidepool_graph\": 2,\n \"name\": ", io::JsonText(graph.name));
  if (family == nullptr) absl::StrAppend(&json, ",\n \"batch\": ", graph.batch);
  if (family != nullptr) AppendBatches(family->batches, json);
  if (!graph.gpu.empty()) absl::StrAppend(&json, ",\n \"gpu\": ", io::JsonText(graph.gpu));
  if (graph.link_bytes_per_second > 0) {
    absl::StrAppend(&json, ",\n \"link\": ", NumberText(graph.link_bytes_per_second));
  }
  json += ",\n \"data\": [";
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    json += i == 0 ? "\n  " : ",\n  ";
    AppendData(graph.data[i], family == nullptr ? 0 : family->bytes_per_sample[i], json);
  }
  json += "],\n \"tasks\": [";
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    json += i == 0 ? "\n  " : ",\n  ";
    AppendTask(graph, graph.tasks[i], json);
    if (family == nullptr) AppendAlgorithms(graph.tasks[i].algorithms, json);
    if (family != nullptr) AppendCosts(family->costs[i], json);
    json += '}';
  }
  json += "]}\n";
  return json;
}

}  // namespace
}  // namespace tidepool::graph

namespace tidepool {
namespace {

absl::Status WriteJson(const std::string& json, const std::filesystem::path& path) {
  return WriteFile(path.string(), [&](std::ostream& out) {
    out << json;
    return absl::OkStatus();
  });
}

}  // namespace

std::string GraphJson(const TaskGraph& graph) { return graph::JsonOf(graph, nullptr); }

std::string FamilyJson(const GraphFamily& family) { return graph::JsonOf(family.graph, &family); }

absl::Status WriteGraph(const TaskGraph& graph, const std::filesystem::path& path) {
  if (absl::Status status = ValidateGraph(graph); !status.ok()) {
    return text::AboutFile(path.string(), status);
  }
  return WriteJson(GraphJson(graph), path);
}

absl::Status WriteFamily(const GraphFamily& family, const std::filesystem::path& path) {
  absl::Status status = ValidateFamily(family);
  if (status.ok() && family.batches.empty()) {
    status = absl::InvalidArgumentError("a family without a table, expected one of TabulateCosts");
  }
  if (!status.ok()) return text::AboutFile(path.string(), status);
  return WriteJson(FamilyJson(family), path);
}

}  // namespace tidepool
