// SPDX-License-Identifier: Apache-2.0
// Checks graphs: one pass per property, and the first fault ends the check.
#include "lib/training/graph/check_graph.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/base/text/utf8.h"
#include "lib/training/graph/data_users.h"
#include "lib/training/graph/task_fault.h"
#include "lib/training/graph/task_uses.h"

namespace tidepool::graph {
namespace {

using text::Quoted;
using About = GraphFault::About;
using Fault = std::optional<GraphFault>;

std::string HomesText(const GraphData& data) {
  return absl::StrCat("data ", Quoted(data.name), " of the kind ",
                      std::string(DataKindName(data.kind)), " is at home ",
                      std::string(DataHomeName(data.before)), " before the iteration and ",
                      std::string(DataHomeName(data.after)), " after it");
}

// Returns the fault of homes that no sequence of iterations can have; "" for valid homes.
std::string HomesFault(const GraphData& data) {
  if (HomeBefore(data.kind) != DataHome::kNowhere && !ExistsBefore(data)) {
    return absl::StrCat(HomesText(data), ", expected device or host before");
  }
  const bool ends = data.kind == DataKind::kInput && !ExistsAfter(data);
  if (!ExistsBefore(data) || data.after == data.before || ends) return "";
  return absl::StrCat(HomesText(data), ", expected the home before also after");
}

std::string EnumerationFault(const GraphData& data) {
  if (data.kind > DataKind::kOptimizerState) return "is of an unknown kind, expected one of six";
  if (data.before > DataHome::kNowhere || data.after > DataHome::kNowhere) {
    return "has an unknown home, expected one of three";
  }
  return data.type > DataType::kUint8 ? "has an unknown type, expected one of ten" : "";
}

std::string DataFault(const GraphData& data, NameSet& names) {
  if (std::string what = NameFault(data.name, names); !what.empty()) {
    return absl::StrCat("data: ", what);
  }
  if (const std::string what = EnumerationFault(data); !what.empty()) {
    return absl::StrCat("data ", Quoted(data.name), " ", what);
  }
  if (data.bytes < 1 || data.bytes > kMostDataBytes) {
    return BytesFault(absl::StrCat("data ", Quoted(data.name), " has"), data.bytes, 1);
  }
  return HomesFault(data);
}

Fault FindDataFault(const TaskGraph& graph) {
  NameSet names;
  std::int64_t left = kMostGraphBytes;
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    const GraphData& data = graph.data[i];
    if (std::string what = DataFault(data, names); !what.empty()) {
      return GraphFault{About::kData, i, std::move(what)};
    }
    left -= data.bytes;
    if (left < 0) {
      return GraphFault{About::kData, i,
                        absl::StrCat("data up to ", Quoted(data.name),
                                     " has more than 2^60 bytes together, expected at most 2^60")};
    }
  }
  return std::nullopt;
}

std::string AboutTask(const GraphTask& task, std::string_view what) {
  return absl::StrCat("task ", Quoted(task.name), ": ", std::string(what));
}

Fault FindTaskFault(const TaskGraph& graph) {
  NameSet names;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    if (std::string what = NameFault(task.name, names); !what.empty()) {
      return GraphFault{About::kTask, i, absl::StrCat("tasks: ", what)};
    }
    if (std::string what = TaskFault(task, graph.batch); !what.empty()) {
      return GraphFault{About::kTask, i, AboutTask(task, what)};
    }
  }
  return std::nullopt;
}

Fault FindRepeatedUse(const TaskGraph& graph) {
  std::vector<std::size_t> last_user(graph.data.size(), kNoTask);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : UsesOf(graph.tasks[i])) {
      if (last_user[data] == i) {
        return GraphFault{
            About::kTask, i,
            AboutTask(graph.tasks[i],
                      absl::StrCat("it uses ", Quoted(graph.data[data].name),
                                   " twice, expected it once in reads, writes or updates"))};
      }
      last_user[data] = i;
    }
  }
  return std::nullopt;
}

// Its task writes over the gradient of the iteration before.
bool IsKeptGradient(const GraphData& data) {
  return data.kind == DataKind::kWeightGradient && ExistsBefore(data);
}

Fault FindWriterFault(const TaskGraph& graph) {
  std::vector<std::size_t> writers(graph.data.size(), kNoTask);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t at : graph.tasks[i].writes) {
      const GraphData& data = graph.data[at];
      std::string what;
      if (ExistsBefore(data) && !IsKeptGradient(data)) {
        what = absl::StrCat("it writes ", Quoted(data.name), ", which is of the kind ",
                            std::string(DataKindName(data.kind)),
                            " and exists before the iteration, expected an update instead");
      } else if (writers[at] != kNoTask) {
        what = absl::StrCat("it writes ", Quoted(data.name), ", as does task ",
                            Quoted(graph.tasks[writers[at]].name), ", expected one writer");
      }
      if (!what.empty()) return GraphFault{About::kTask, i, AboutTask(graph.tasks[i], what)};
      writers[at] = i;
    }
  }
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    if (writers[i] != kNoTask || ExistsBefore(graph.data[i])) continue;
    return GraphFault{About::kData, i,
                      absl::StrCat("data ", Quoted(graph.data[i].name),
                                   " is written by no task, expected exactly one writer")};
  }
  return std::nullopt;
}

std::vector<bool> AreUsed(const TaskGraph& graph) {
  std::vector<bool> are_used(graph.data.size());
  for (const GraphTask& task : graph.tasks) {
    for (const std::size_t data : InputsOf(task)) are_used[data] = true;
  }
  return are_used;
}

Fault FindUnused(const TaskGraph& graph) {
  const std::vector<bool> are_used = AreUsed(graph);
  const std::vector<std::size_t> writers = WritersOf(graph);
  std::vector<bool> has_used_result(graph.tasks.size());
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    if (are_used[i] && writers[i] != kNoTask) has_used_result[writers[i]] = true;
  }
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    const GraphData& data = graph.data[i];
    if (are_used[i] || ExistsAfter(data)) continue;
    if (writers[i] != kNoTask && !has_used_result[writers[i]]) continue;  // a result
    return GraphFault{About::kData, i,
                      absl::StrCat("data ", Quoted(data.name),
                                   " is read and updated by no task, expected a reader")};
  }
  return std::nullopt;
}

}  // namespace

std::optional<GraphFault> FindIndexFault(const TaskGraph& graph) {
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : UsesOf(graph.tasks[i])) {
      if (data < graph.data.size()) continue;
      return GraphFault{
          About::kTask, i,
          AboutTask(graph.tasks[i], absl::StrCat("it uses data ", data, ", expected less than ",
                                                 graph.data.size()))};
    }
  }
  return std::nullopt;
}

std::optional<GraphFault> FindFault(const TaskGraph& graph) {
  if (graph.tasks.empty()) return GraphFault{About::kGraph, 0, "no task, expected at least one"};
  if (graph.batch < 0) {
    return GraphFault{About::kGraph, 0,
                      absl::StrCat("a batch of ", graph.batch, ", expected 0 (unknown) or more")};
  }
  if (!text::IsUtf8(graph.name)) {
    return GraphFault{About::kGraph, 0, "its name is not UTF-8, expected UTF-8"};
  }
  if (!text::IsUtf8(graph.gpu)) {
    return GraphFault{About::kGraph, 0, "the name of its GPU is not UTF-8, expected UTF-8"};
  }
  const double link = graph.link_bytes_per_second;
  if (!(link >= 0 && link <= kMostLinkBytesPerSecond)) {
    return GraphFault{
        About::kGraph, 0,
        absl::StrCat("a link of ", link, " bytes a second, expected 0 (unknown) to 10^18")};
  }
  for (const auto find : {FindDataFault, FindTaskFault, FindIndexFault, FindRepeatedUse,
                          FindWriterFault, FindUnused}) {
    if (Fault fault = find(graph); fault.has_value()) return fault;
  }
  return std::nullopt;
}

std::optional<GraphFault> FindOrderFault(const TaskGraph& graph) {
  const std::vector<std::size_t> writers = WritersOf(graph);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : InputsOf(graph.tasks[i])) {
      if (writers[data] == kNoTask || writers[data] < i) continue;
      return GraphFault{
          About::kTask, i,
          AboutTask(graph.tasks[i],
                    absl::StrCat("it needs ", Quoted(graph.data[data].name), ", which task ",
                                 Quoted(graph.tasks[writers[data]].name),
                                 " writes later, expected it after that task"))};
    }
  }
  return std::nullopt;
}

}  // namespace tidepool::graph

namespace tidepool {

absl::Status ValidateGraph(const TaskGraph& graph) {
  std::optional<graph::GraphFault> fault = graph::FindFault(graph);
  if (!fault.has_value()) fault = graph::FindOrderFault(graph);
  return fault.has_value() ? absl::InvalidArgumentError(fault->what) : absl::OkStatus();
}

}  // namespace tidepool
