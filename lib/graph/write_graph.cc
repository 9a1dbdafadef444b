// SPDX-License-Identifier: Apache-2.0
// Writes graphs: each datum and each task has a line of its own, so that line numbers in errors are
// useful.
#include <array>
#include <charconv>
#include <string>

#include "absl/strings/str_cat.h"
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

void AppendAlgorithms(const GraphTask& task, std::string& json) {
  json += ", \"algorithms\": [";
  const char* comma = "";
  for (const TaskAlgorithm& algorithm : task.algorithms) {
    absl::StrAppend(&json, comma, "{\"name\": ", io::JsonText(algorithm.name),
                    ", \"seconds\": ", NumberText(algorithm.seconds),
                    ", \"workspace\": ", algorithm.workspace_bytes, "}");
    comma = ", ";
  }
  json += ']';
}

void AppendTask(const TaskGraph& graph, const GraphTask& task, std::string& json) {
  absl::StrAppend(&json, "{\"name\": ", io::JsonText(task.name),
                  ", \"layer\": ", io::JsonText(task.layer));
  absl::StrAppend(&json, ", \"operation\": ", io::JsonText(task.operation), ", \"phase\": \"",
                  std::string(TaskPhaseName(task.phase)), "\"");
  AppendUses(graph, "reads", task.reads, json);
  AppendUses(graph, "writes", task.writes, json);
  AppendUses(graph, "updates", task.updates, json);
  AppendAlgorithms(task, json);
  json += '}';
}

}  // namespace

std::string GraphJson(const TaskGraph& graph) {
  std::string json = absl::StrCat("{\"tidepool_graph\": 1,\n \"name\": ", io::JsonText(graph.name),
                                  ",\n \"batch\": ", graph.batch);
  if (!graph.gpu.empty()) absl::StrAppend(&json, ",\n \"gpu\": ", io::JsonText(graph.gpu));
  if (graph.link_bytes_per_second > 0) {
    absl::StrAppend(&json, ",\n \"link\": ", NumberText(graph.link_bytes_per_second));
  }
  json += ",\n \"data\": [";
  const char* comma = "\n  ";
  for (const GraphData& data : graph.data) {
    absl::StrAppend(&json, comma, "{\"name\": ", io::JsonText(data.name),
                    ", \"bytes\": ", data.bytes, ", \"kind\": \"",
                    std::string(DataKindName(data.kind)), "\"}");
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
