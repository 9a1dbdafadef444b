// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a task graph is refused with one line, or it is valid and reads the same after it
// was written.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "absl/strings/match.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool::fuzz {
namespace {

void RequireOfGraph(bool condition) {
  if (!condition) std::abort();
}

void CheckError(const absl::Status& status) {
  RequireOfGraph(status.code() == absl::StatusCode::kInvalidArgument);
  RequireOfGraph(!status.message().empty());
  RequireOfGraph(!absl::StrContains(status.message(), "\n"));
}

void CheckGraph(const TaskGraph& graph) {
  RequireOfGraph(ValidateGraph(graph).ok());
  const GraphTotals totals = TotalsOf(graph);
  RequireOfGraph(totals.kept_activations <= totals.activations && totals.least_seconds >= 0);
  const std::string json = GraphJson(graph);
  const absl::StatusOr<TaskGraph> again = ParseGraph(json, "again");
  RequireOfGraph(again.ok() && *again == graph && GraphJson(*again) == json);
}

void CheckFamily(const GraphFamily& family) {
  RequireOfGraph(ValidateFamily(family).ok());
  const std::string json = FamilyJson(family);
  const absl::StatusOr<GraphOrFamily> again = ParseGraphOrFamily(json, "again");
  RequireOfGraph(again.ok() && FamilyJson(std::get<GraphFamily>(*again)) == json);
  const std::int64_t least = family.batches.front();
  const std::int64_t most = family.batches.back();
  for (const std::int64_t batch : {least, least + (most - least) / 2, most}) {
    const absl::StatusOr<TaskGraph> graph = GraphAt(family, batch);
    // An algorithm between two batches needs both.
    RequireOfGraph(graph.ok() || (batch != least && batch != most));
    if (graph.ok()) CheckGraph(*graph);
  }
}

void ReadAsGraph(std::string_view contents) {
  const absl::StatusOr<GraphOrFamily> read = ParseGraphOrFamily(contents, "input");
  if (!read.ok()) return CheckError(read.status());
  if (const auto* graph = std::get_if<TaskGraph>(&*read)) return CheckGraph(*graph);
  CheckFamily(std::get<GraphFamily>(*read));
}

void ReadAsTimes(std::string_view contents) {
  TaskGraph graph;
  graph.data = {{"x", 1, DataKind::kInput}, {"y", 1, DataKind::kActivation}};
  graph.tasks.push_back(
      {.name = "f", .reads = {0}, .writes = {1}, .algorithms = {{"a", 1, 0}, {"b", 1, 1}}});
  const absl::Status status = ParseTimes(contents, "input", graph);
  RequireOfGraph(ValidateGraph(graph).ok());
  if (!status.ok()) CheckError(status);
}

}  // namespace
}  // namespace tidepool::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  tidepool::fuzz::ReadAsGraph(input);
  tidepool::fuzz::ReadAsTimes("task,algorithm,seconds\n" + std::string(input));
  return 0;
}
