// SPDX-License-Identifier: Apache-2.0
// Sorts tasks. The order constraints are a list of arrows, at most two per use of a datum: readers
// between two updates are free among each other, so only updates constrain them. Kahn's algorithm
// runs on the arrows.
#include "lib/training/graph/task_order.h"

#include <functional>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/graph/check_graph.h"
#include "lib/training/graph/data_users.h"
#include "lib/training/graph/task_uses.h"

namespace tidepool::graph {
namespace {

constexpr std::size_t kMostNamed = 8;

struct Arrow {
  std::size_t before;
  std::size_t after;
};

// Arrows, grouped by their start or by their end.
class ArrowLists {
 public:
  template <typename From, typename To>
  ArrowLists(std::size_t tasks, const std::vector<Arrow>& arrows, From from, To to)
      : begins_(tasks + 1), ends_(arrows.size()) {
    for (const Arrow& arrow : arrows) ++begins_[from(arrow) + 1];
    for (std::size_t i = 0; i < tasks; ++i) begins_[i + 1] += begins_[i];
    std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
    for (const Arrow& arrow : arrows) ends_[next[from(arrow)]++] = to(arrow);
  }

  const std::size_t* begin(std::size_t task) const { return ends_.data() + begins_[task]; }
  const std::size_t* end(std::size_t task) const { return ends_.data() + begins_[task + 1]; }
  std::size_t count(std::size_t task) const { return begins_[task + 1] - begins_[task]; }

 private:
  std::vector<std::size_t> begins_;
  std::vector<std::size_t> ends_;
};

void AddArrowsFromWriters(const TaskGraph& graph, std::vector<Arrow>& arrows) {
  const std::vector<std::size_t> writers = WritersOf(graph);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : InputsOf(graph.tasks[i])) {
      if (writers[data] != kNoTask) arrows.push_back({writers[data], i});
    }
  }
}

void AddArrowsOfUpdates(const TaskGraph& graph, std::vector<Arrow>& arrows) {
  struct Uses {
    std::size_t updater = kNoTask;     // the last update so far
    std::vector<std::size_t> readers;  // since then
  };
  std::vector<Uses> uses(graph.data.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const std::size_t data : graph.tasks[i].reads) {
      if (uses[data].updater != kNoTask) arrows.push_back({uses[data].updater, i});
      uses[data].readers.push_back(i);
    }
    for (const std::size_t data : graph.tasks[i].updates) {
      if (uses[data].updater != kNoTask) arrows.push_back({uses[data].updater, i});
      for (const std::size_t reader : uses[data].readers) arrows.push_back({reader, i});
      uses[data].readers.clear();
      uses[data].updater = i;
    }
  }
}

// Each remaining task has a remaining predecessor, so a walk along predecessors meets a task twice.
absl::Status CycleError(const TaskGraph& graph, const ArrowLists& befores,
                        const std::vector<std::size_t>& missing) {
  std::size_t at = 0;
  while (missing[at] == 0) ++at;
  std::vector<std::size_t> seen_at(graph.tasks.size(), kNoTask);
  std::vector<std::size_t> way;
  while (seen_at[at] == kNoTask) {
    seen_at[at] = way.size();
    way.push_back(at);
    const std::size_t* before = befores.begin(at);
    while (missing[*before] == 0) ++before;
    at = *before;
  }
  std::string names;
  const std::size_t length = way.size() - seen_at[at];
  for (std::size_t i = 0; i < std::min(length, kMostNamed); ++i) {
    absl::StrAppend(&names, text::Quoted(graph.tasks[way[way.size() - 1 - i]].name), ", ");
  }
  if (length > kMostNamed) absl::StrAppend(&names, length - kMostNamed, " more, ");
  return absl::InvalidArgumentError(
      absl::StrCat("tasks that wait for each other in a circle: ", names, "and ",
                   text::Quoted(graph.tasks[way.back()].name), " again, expected no cycle"));
}

}  // namespace

absl::StatusOr<std::vector<std::size_t>> TaskOrder(const TaskGraph& graph) {
  const std::size_t tasks = graph.tasks.size();
  std::vector<Arrow> arrows;
  AddArrowsFromWriters(graph, arrows);
  AddArrowsOfUpdates(graph, arrows);
  const auto before = [](const Arrow& arrow) { return arrow.before; };
  const auto after = [](const Arrow& arrow) { return arrow.after; };
  const ArrowLists afters(tasks, arrows, before, after);
  const ArrowLists befores(tasks, arrows, after, before);

  std::vector<std::size_t> missing(tasks);
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> can_run;
  for (std::size_t i = 0; i < tasks; ++i) {
    missing[i] = befores.count(i);
    if (missing[i] == 0) can_run.push(i);
  }
  std::vector<std::size_t> order;
  order.reserve(tasks);
  while (!can_run.empty()) {
    const std::size_t next = can_run.top();
    can_run.pop();
    order.push_back(next);
    for (const std::size_t* waits = afters.begin(next); waits != afters.end(next); ++waits) {
      if (--missing[*waits] == 0) can_run.push(*waits);
    }
  }
  if (order.size() < tasks) return CycleError(graph, befores, missing);
  return order;
}

}  // namespace tidepool::graph

namespace tidepool {

absl::Status SortTasks(TaskGraph& graph) {
  if (const auto fault = graph::FindIndexFault(graph); fault.has_value()) {
    return absl::InvalidArgumentError(fault->what);
  }
  const absl::StatusOr<std::vector<std::size_t>> order = graph::TaskOrder(graph);
  if (!order.ok()) return order.status();
  graph.tasks = graph::InOrder(std::move(graph.tasks), *order);
  return absl::OkStatus();
}

}  // namespace tidepool
