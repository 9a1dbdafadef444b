// SPDX-License-Identifier: Apache-2.0
// Checks graphs: one pass per property, and the first fault ends the check.
#include "lib/graph/check_graph.h"

#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/io/quote.h"
#include "lib/io/utf8.h"

namespace tidepool::graph {
namespace {

using io::Quoted;
using About = GraphFault::About;
using NameSet = absl::flat_hash_set<absl::string_view>;
using Fault = std::optional<GraphFault>;

constexpr std::size_t kNoTask = std::numeric_limits<std::size_t>::max();

// Returns the fault of a name by itself; "" for a valid name.
std::string NameFault(const std::string& name, NameSet& others) {
  if (name.empty()) return "an empty name, expected a name";
  if (!io::IsUtf8(name)) {
    return absl::StrCat("the name ", io::Quoted(name), " is not UTF-8, expected UTF-8");
  }
  if (!others.insert(name).second) {
    return absl::StrCat("the name ", io::Quoted(name), " occurs twice, expected unique names");
  }
  return "";
}

std::string OutOfRange(std::string_view whose, const std::string& name, std::string_view what,
                       std::int64_t bytes, int least) {
  return absl::StrCat(std::string(whose), " ", io::Quoted(name), " has ", std::string(what), bytes,
                      " bytes, expected ", least, " to 2^50");
}

Fault FindDataFault(const TaskGraph& graph) {
  NameSet names;
  std::int64_t left = kMostGraphBytes;
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    const GraphData& data = graph.data[i];
    if (std::string what = NameFault(data.name, names); !what.empty()) {
      return GraphFault{About::kData, i, absl::StrCat("data: ", what)};
    }
    if (data.kind > DataKind::kWeightGradient) {
      return GraphFault{About::kData, i,
                        absl::StrCat("data ", io::Quoted(data.name),
                                     " is of an unknown kind, expected one of five")};
    }
    if (data.bytes < 1 || data.bytes > kMostDataBytes) {
      return GraphFault{About::kData, i, OutOfRange("data", data.name, "", data.bytes, 1)};
    }
    left -= data.bytes;
    if (left < 0) {
      return GraphFault{About::kData, i,
                        absl::StrCat("data up to ", io::Quoted(data.name),
                                     " has more than 2^60 bytes together, expected at most 2^60")};
    }
  }
  return std::nullopt;
}

std::string AlgorithmFault(const TaskAlgorithm& algorithm, NameSet& names) {
  if (std::string what = NameFault(algorithm.name, names); !what.empty()) return what;
  if (algorithm.workspace_bytes < 0 || algorithm.workspace_bytes > kMostDataBytes) {
    return OutOfRange("algorithm", algorithm.name, "a workspace of ", algorithm.workspace_bytes, 0);
  }
  // Also refuses NaN.
  if (!(algorithm.seconds >= 0 && algorithm.seconds <= kMostTaskSeconds)) {
    return absl::StrCat("algorithm ", io::Quoted(algorithm.name), " takes ", algorithm.seconds,
                        " seconds, expected 0 to 10^9");
  }
  return "";
}

std::string AlgorithmsFault(const GraphTask& task) {
  if (task.algorithms.empty()) return "no algorithm, expected at least one";
  NameSet names;
  std::int64_t before = 0;
  for (const TaskAlgorithm& algorithm : task.algorithms) {
    if (std::string what = AlgorithmFault(algorithm, names); !what.empty()) return what;
    if (algorithm.workspace_bytes < before) {
      return absl::StrCat("algorithm ", io::Quoted(algorithm.name),
                          " has a smaller workspace than the ",
                          "one before it, expected ascending order");
    }
    before = algorithm.workspace_bytes;
  }
  return "";
}

// Returns the fault of a task by itself.
std::string TaskFault(const GraphTask& task) {
  for (const std::string* text : {&task.layer, &task.operation}) {
    if (!io::IsUtf8(*text)) {
      return absl::StrCat("the text ", io::Quoted(*text), " is not UTF-8, expected UTF-8");
    }
  }
  if (task.phase > TaskPhase::kUpdate) return "an unknown phase, expected one of three";
  if (task.writes.empty() && task.updates.empty()) {
    return "it writes nothing and updates nothing, expected a result";
  }
  return AlgorithmsFault(task);
}

std::string AboutTask(const GraphTask& task, std::string_view what) {
  return absl::StrCat("task ", io::Quoted(task.name), ": ", std::string(what));
}

Fault FindTaskFault(const TaskGraph& graph) {
  NameSet names;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const GraphTask& task = graph.tasks[i];
    if (std::string what = NameFault(task.name, names); !what.empty()) {
      return GraphFault{About::kTask, i, absl::StrCat("tasks: ", what)};
    }
    if (std::string what = TaskFault(task); !what.empty()) {
      return GraphFault{About::kTask, i, AboutTask(task, what)};
    }
  }
  return std::nullopt;
}

using UseLists = std::array<const std::vector<std::size_t>*, 3>;

UseLists UsesOf(const GraphTask& task) { return {&task.reads, &task.writes, &task.updates}; }

Fault FindRepeatedUse(const TaskGraph& graph) {
  std::vector<std::size_t> last_user(graph.data.size(), kNoTask);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const auto* uses : UsesOf(graph.tasks[i])) {
      for (const std::size_t data : *uses) {
        if (last_user[data] == i) {
          return GraphFault{
              About::kTask, i,
              AboutTask(graph.tasks[i],
                        absl::StrCat("it uses ", io::Quoted(graph.data[data].name),
                                     " twice, expected it once in reads, writes or updates"))};
        }
        last_user[data] = i;
      }
    }
  }
  return std::nullopt;
}

bool IsThereBefore(const GraphData& data) {
  return data.kind == DataKind::kInput || data.kind == DataKind::kWeight;
}

// Returns the task that writes each datum; kNoTask for data that no task writes.
std::vector<std::size_t> WritersOf(const TaskGraph& graph) {
  std::vector<std::size_t> writers(graph.data.size(), kNoTask);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : graph.tasks[i].writes) writers[data] = i;
  }
  return writers;
}

Fault FindWriterFault(const TaskGraph& graph) {
  std::vector<std::size_t> writers(graph.data.size(), kNoTask);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t at : graph.tasks[i].writes) {
      const GraphData& data = graph.data[at];
      std::string what;
      if (IsThereBefore(data)) {
        what = absl::StrCat("it writes ", io::Quoted(data.name), ", which is of the kind ",
                            std::string(DataKindName(data.kind)),
                            " and exists before the iteration, expected an update instead");
      } else if (writers[at] != kNoTask) {
        what = absl::StrCat("it writes ", io::Quoted(data.name), ", as does task ",
                            io::Quoted(graph.tasks[writers[at]].name), ", expected one writer");
      }
      if (!what.empty()) return GraphFault{About::kTask, i, AboutTask(graph.tasks[i], what)};
      writers[at] = i;
    }
  }
  for (std::size_t i = 0; i < graph.data.size(); ++i) {
    if (writers[i] != kNoTask || IsThereBefore(graph.data[i])) continue;
    return GraphFault{About::kData, i,
                      absl::StrCat("data ", io::Quoted(graph.data[i].name),
                                   " is written by no task, expected exactly one writer")};
  }
  return std::nullopt;
}

std::vector<bool> AreUsed(const TaskGraph& graph) {
  std::vector<bool> are_used(graph.data.size());
  for (const GraphTask& task : graph.tasks) {
    for (const std::size_t data : task.reads) are_used[data] = true;
    for (const std::size_t data : task.updates) are_used[data] = true;
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
    if (are_used[i] || data.kind == DataKind::kWeight) continue;
    if (writers[i] != kNoTask && !has_used_result[writers[i]]) continue;  // a result
    return GraphFault{About::kData, i,
                      absl::StrCat("data ", io::Quoted(data.name),
                                   " is read and updated by no task, expected a reader")};
  }
  return std::nullopt;
}

}  // namespace

std::optional<GraphFault> FindIndexFault(const TaskGraph& graph) {
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const auto* uses : UsesOf(graph.tasks[i])) {
      for (const std::size_t data : *uses) {
        if (data < graph.data.size()) continue;
        return GraphFault{
            About::kTask, i,
            AboutTask(graph.tasks[i], absl::StrCat("it uses data ", data, ", expected less than ",
                                                   graph.data.size()))};
      }
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
  if (!io::IsUtf8(graph.name)) {
    return GraphFault{About::kGraph, 0, "its name is not UTF-8, expected UTF-8"};
  }
  if (!io::IsUtf8(graph.gpu)) {
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
    for (const auto* uses : {&graph.tasks[i].reads, &graph.tasks[i].updates}) {
      for (const std::size_t data : *uses) {
        if (writers[data] == kNoTask || writers[data] < i) continue;
        return GraphFault{
            About::kTask, i,
            AboutTask(graph.tasks[i],
                      absl::StrCat("it needs ", io::Quoted(graph.data[data].name), ", which task ",
                                   io::Quoted(graph.tasks[writers[data]].name),
                                   " writes later, expected it after that task"))};
      }
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
