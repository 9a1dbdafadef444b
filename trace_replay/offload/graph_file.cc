// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/graph_file.h"

#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tidepool::tool {

absl::StatusOr<GraphOrFamily> ReadGraphFor(const std::string& path, std::int64_t batch) {
  absl::StatusOr<GraphOrFamily> read = ReadGraphOrFamily(path);
  if (!read.ok() || batch == 0) return read;
  const auto* graph = std::get_if<TaskGraph>(&*read);
  if (graph == nullptr) return read;
  return absl::InvalidArgumentError(absl::StrCat(
      absl::CHexEscape(path), ": a graph of batch ", graph->batch,
      " has one batch, expected no --batch, or the name of a network or a graph at any batch"));
}

}  // namespace tidepool::tool
