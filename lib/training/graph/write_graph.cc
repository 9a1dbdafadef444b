// SPDX-License-Identifier: Apache-2.0
// Writes files of graphs and families.
#include "lib/base/io/quote.h"
#include "lib/training/graph/graph_json_text.h"
#include "tidepool/trace/output_file.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

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
    return io::AboutFile(path.string(), status);
  }
  return WriteJson(GraphJson(graph), path);
}

absl::Status WriteFamily(const GraphFamily& family, const std::filesystem::path& path) {
  absl::Status status = ValidateFamily(family);
  if (status.ok() && family.batches.empty()) {
    status = absl::InvalidArgumentError("a family without a table, expected one of TabulateCosts");
  }
  if (!status.ok()) return io::AboutFile(path.string(), status);
  return WriteJson(FamilyJson(family), path);
}

}  // namespace tidepool
