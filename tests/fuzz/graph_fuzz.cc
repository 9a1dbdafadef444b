// SPDX-License-Identifier: Apache-2.0
// Fuzz target: a task graph is refused with one line, or it is valid and reads the same after it
// was written.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "tidepool/schedule/graph.h"

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

void ReadAsGraph(std::string_view contents) {
  absl::StatusOr<TaskGraph> graph = ParseGraph(contents, "input");
  if (!graph.ok()) return CheckError(graph.status());
  RequireOfGraph(ValidateGraph(*graph).ok());
  const GraphTotals totals = TotalsOf(*graph);
  RequireOfGraph(totals.kept_activations <= totals.activations && totals.least_seconds >= 0);
  const std::string json = GraphJson(*graph);
  const absl::StatusOr<TaskGraph> again = ParseGraph(json, "again");
  RequireOfGraph(again.ok() && *again == *graph && GraphJson(*again) == json);
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
