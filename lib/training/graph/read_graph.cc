// SPDX-License-Identifier: Apache-2.0
// Turns the contents of a file into a graph that can run: names become indices, tasks are sorted,
// and faults get the line of their part.
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/io/byte_source.h"
#include "lib/base/text/quote.h"
#include "lib/training/graph/check_graph.h"
#include "lib/training/graph/graph_json_reader.h"
#include "lib/training/graph/task_order.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/graph_family.h"

namespace tidepool {
namespace {

using graph::GraphFault;
using graph::GraphFile;
using io::ByteSource;

// An algorithm that is missing at a batch has no workspace there.
void ClearMissing(AlgorithmCosts& costs) {
  if (costs.seconds.size() != costs.workspace_bytes.size()) return;
  for (std::size_t i = 0; i < costs.seconds.size(); ++i) {
    if (costs.seconds[i] < 0) costs.workspace_bytes[i] = 0;
  }
}

class GraphFileReader {
 public:
  GraphFileReader(GraphFile file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}

  absl::StatusOr<GraphOrFamily> Read();

 private:
  absl::Status ErrorAt(std::int64_t line, const std::string& what) const {
    return text::AboutLine(name_, line, absl::InvalidArgumentError(what));
  }
  absl::Status ErrorOf(const GraphFault& fault) const;
  absl::Status ResolveNames();
  absl::StatusOr<TaskGraph> MakeGraph();
  absl::StatusOr<GraphFamily> MakeFamily();
  absl::Status TakeCosts(GraphFamily& family);

  GraphFile file_;
  std::string name_;
};

absl::Status GraphFileReader::ErrorOf(const GraphFault& fault) const {
  switch (fault.about) {
    case GraphFault::About::kData:
      return ErrorAt(file_.data_lines[fault.index], fault.what);
    case GraphFault::About::kTask:
      return ErrorAt(file_.task_lines[fault.index], fault.what);
    case GraphFault::About::kGraph:
      break;
  }
  return ErrorAt(0, fault.what);
}

absl::Status GraphFileReader::ResolveNames() {
  const std::size_t none = file_.graph.data.size();
  const std::size_t used_names = file_.names.size();
  std::vector<std::size_t> data_called(used_names, none);
  for (std::size_t i = 0; i < none; ++i) {
    const std::uint32_t name = file_.names.Number(file_.graph.data[i].name);
    if (name < used_names) data_called[name] = i;  // no task uses later names
  }
  for (std::size_t i = 0; i < file_.graph.tasks.size(); ++i) {
    GraphTask& task = file_.graph.tasks[i];
    for (auto* uses : {&task.reads, &task.writes, &task.updates}) {
      for (std::size_t& use : *uses) {
        const std::size_t data = data_called[use];
        if (data == none) {
          return ErrorAt(file_.task_lines[i],
                         absl::StrCat("task ", text::Quoted(task.name), ": there is no data ",
                                      text::Quoted(file_.names[static_cast<std::uint32_t>(use)]),
                                      ", expected a name from data"));
        }
        use = data;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TaskGraph> GraphFileReader::MakeGraph() {
  if (file_.family_line > 0) {
    return ErrorAt(file_.family_line,
                   "a size per sample or a list of costs in a graph of one batch, expected the key "
                   "batches in the graph");
  }
  if (const auto fault = graph::FindFault(file_.graph); fault.has_value()) {
    return ErrorOf(*fault);
  }
  const absl::StatusOr<std::vector<std::size_t>> order = graph::TaskOrder(file_.graph);
  if (!order.ok()) return ErrorAt(0, std::string(order.status().message()));
  file_.graph.tasks = graph::InOrder(std::move(file_.graph.tasks), *order);
  return std::move(file_.graph);
}

// Moves the algorithms of tasks into the table.
absl::Status GraphFileReader::TakeCosts(GraphFamily& family) {
  for (std::size_t i = 0; i < family.graph.tasks.size(); ++i) {
    std::vector<AlgorithmCosts>& costs = family.costs.emplace_back();
    for (TaskAlgorithm& algorithm : family.graph.tasks[i].algorithms) {
      if (!algorithm.micro_batches.empty()) {
        return ErrorAt(file_.task_lines[i],
                       absl::StrCat("configuration ", text::Quoted(algorithm.name),
                                    " in a graph at any batch, expected no micro_batches"));
      }
      costs.push_back(
          {std::move(algorithm.name), {algorithm.seconds}, {algorithm.workspace_bytes}});
    }
    family.graph.tasks[i].algorithms.clear();
  }
  for (GraphFile::CostLists& lists : file_.cost_lists) {
    AlgorithmCosts& its = family.costs[lists.task][lists.algorithm];
    if (lists.has_seconds) its.seconds = std::move(lists.seconds);
    if (lists.has_workspaces) its.workspace_bytes = std::move(lists.workspaces);
    ClearMissing(its);
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphFamily> GraphFileReader::MakeFamily() {
  GraphFamily family = {std::move(file_.graph), std::move(file_.bytes_per_sample),
                        std::move(file_.batches)};
  if (absl::Status status = TakeCosts(family); !status.ok()) return status;
  if (const auto fault = graph::FindFamilyFault(family); fault.has_value()) return ErrorOf(*fault);
  const absl::StatusOr<std::vector<std::size_t>> order = graph::TaskOrder(family.graph);
  if (!order.ok()) return ErrorAt(0, std::string(order.status().message()));
  family.graph.tasks = graph::InOrder(std::move(family.graph.tasks), *order);
  family.costs = graph::InOrder(std::move(family.costs), *order);
  return family;
}

absl::StatusOr<GraphOrFamily> GraphFileReader::Read() {
  if (absl::Status status = ResolveNames(); !status.ok()) return status;
  if (!file_.has_batches) return MakeGraph();
  return MakeFamily();
}

absl::StatusOr<GraphOrFamily> ReadFrom(std::unique_ptr<io::ByteSource> source,
                                       const std::string& name) {
  absl::StatusOr<GraphFile> file = graph::ReadGraphFile(std::move(source), name);
  if (!file.ok()) return file.status();
  return GraphFileReader(*std::move(file), name).Read();
}

absl::StatusOr<TaskGraph> OnlyGraph(absl::StatusOr<GraphOrFamily> read, const std::string& name) {
  if (!read.ok()) return read.status();
  if (auto* graph = std::get_if<TaskGraph>(&*read)) return std::move(*graph);
  return text::AboutFile(
      name, absl::InvalidArgumentError("a graph at any batch, expected a graph of one batch"));
}

}  // namespace

absl::StatusOr<GraphOrFamily> ReadGraphOrFamily(const std::filesystem::path& path) {
  absl::StatusOr<std::unique_ptr<io::ByteSource>> file =
      io::OpenFile(path.string(), "a task graph");
  if (!file.ok()) return text::AboutFile(path.string(), file.status());
  return ReadFrom(*std::move(file), path.string());
}

absl::StatusOr<GraphOrFamily> ParseGraphOrFamily(std::string_view json, std::string_view name) {
  return ReadFrom(io::FromMemory(json), std::string(name));
}

absl::StatusOr<TaskGraph> ReadGraph(const std::filesystem::path& path) {
  return OnlyGraph(ReadGraphOrFamily(path), path.string());
}

absl::StatusOr<TaskGraph> ParseGraph(std::string_view json, std::string_view name) {
  return OnlyGraph(ParseGraphOrFamily(json, name), std::string(name));
}

}  // namespace tidepool
