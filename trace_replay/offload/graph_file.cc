// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/graph_file.h"

#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "trace_replay/text.h"
#include "trace_replay/wrong_file.h"

namespace tidepool::tool {

absl::StatusOr<GraphOrFamily> ReadGraphFile(const std::string& path) {
  absl::StatusOr<GraphOrFamily> read = ReadGraphOrFamily(path);
  if (!read.ok()) return NoGraph(path, read.status());
  return read;
}

absl::StatusOr<GraphOrFamily> ReadGraphFor(const std::string& path, std::int64_t batch) {
  absl::StatusOr<GraphOrFamily> read = ReadGraphFile(path);
  if (!read.ok() || batch == 0) return read;
  const auto* graph = std::get_if<TaskGraph>(&*read);
  if (graph == nullptr) return read;
  return absl::InvalidArgumentError(absl::StrCat(
      absl::CHexEscape(path), ": ", GraphOfBatchText(*graph),
      " has one batch, expected no --batch, or the name of a network or a graph at any batch"));
}

std::string GraphOfBatchText(const TaskGraph& graph) {
  return graph.batch > 0 ? absl::StrCat("a graph of batch ", graph.batch)
                         : "a graph of an unknown batch";
}

std::string KnownBatchText(std::int64_t batch) {
  return batch > 0 ? absl::StrCat("batch ", CountText(batch), ", ") : "";
}

}  // namespace tidepool::tool
