// SPDX-License-Identifier: Apache-2.0
// Writes graphs: each datum and each task has a line of its own, so that line numbers in errors are
// useful.
#include <array>
#include <charconv>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/graph/layer_fields.h"
#include "lib/io/json_text.h"
#include "lib/io/quote.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/trace/output_file.h"

namespace tidepool {
namespace {

using io::JsonText;

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

void AppendData(const GraphData& data, std::string& json) {
  absl::StrAppend(&json, "{\"name\": ", io::JsonText(data.name), ", \"bytes\": ", data.bytes);
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
  graph::ForEachField(parameters, [&](const auto& field, std::int64_t number) {
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

void AppendAlgorithms(const GraphTask& task, std::string& json) {
  json += ", \"algorithms\": [";
  const char* comma = "";
  for (const TaskAlgorithm& algorithm : task.algorithms) {
    absl::StrAppend(&json, comma, "{\"name\": ", io::JsonText(algorithm.name),
                    ", \"seconds\": ", NumberText(algorithm.seconds),
                    ", \"workspace\": ", algorithm.workspace_bytes);
    AppendMicroBatches(algorithm.micro_batches, json);
    json += '}';
    comma = ", ";
  }
  json += ']';
}

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
  AppendAlgorithms(task, json);
  json += '}';
}

}  // namespace

std::string GraphJson(const TaskGraph& graph) {
  std::string json = absl::StrCat("{\"tidepool_graph\": 2,\n \"name\": ", io::JsonText(graph.name),
                                  ",\n \"batch\": ", graph.batch);
  if (!graph.gpu.empty()) absl::StrAppend(&json, ",\n \"gpu\": ", io::JsonText(graph.gpu));
  if (graph.link_bytes_per_second > 0) {
    absl::StrAppend(&json, ",\n \"link\": ", NumberText(graph.link_bytes_per_second));
  }
  json += ",\n \"data\": [";
  const char* comma = "\n  ";
  for (const GraphData& data : graph.data) {
    json += comma;
    AppendData(data, json);
    comma = ",\n  ";
  }
  json += "],\n \"tasks\": [";
  comma = "\n  ";
  for (const GraphTask& task : graph.tasks) {
    json += comma;
    AppendTask(graph, task, json);
    comma = ",\n  ";
  }
  json += "]}\n";
  return json;
}

absl::Status WriteGraph(const TaskGraph& graph, const std::filesystem::path& path) {
  if (absl::Status status = ValidateGraph(graph); !status.ok()) {
    return io::AboutFile(path.string(), status);
  }
  return WriteFile(path.string(), [&](std::ostream& out) {
    out << GraphJson(graph);
    return absl::OkStatus();
  });
}

}  // namespace tidepool
