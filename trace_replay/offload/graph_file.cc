// SPDX-License-Identifier: Apache-2.0
// Reads graph files at a batch.
#include "trace_replay/offload/graph_file.h"

#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tidepool/schedule/graph_family.h"

namespace tidepool::tool {
namespace {

absl::Status AboutFile(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(absl::CHexEscape(path), ": ", what));
}

}  // namespace

absl::StatusOr<TaskGraph> ReadGraphAt(const std::string& path, std::int64_t batch) {
  absl::StatusOr<GraphOrFamily> read = ReadGraphOrFamily(path);
  if (!read.ok()) return read.status();
  if (auto* graph = std::get_if<TaskGraph>(&*read)) {
    if (batch == 0) return std::move(*graph);
    return AboutFile(path, absl::StrCat("a graph of batch ", graph->batch,
                                        " has one batch, expected no --batch, or the name of a "
                                        "network or a graph at any batch"));
  }
  if (batch == 0) return AboutFile(path, "a graph at any batch, expected --batch too");
  absl::StatusOr<TaskGraph> graph = GraphAt(std::get<GraphFamily>(*read), batch);
  if (!graph.ok()) return AboutFile(path, std::string(graph.status().message()));
  return graph;
}

}  // namespace tidepool::tool
