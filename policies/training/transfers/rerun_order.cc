// SPDX-License-Identifier: Apache-2.0
// Puts runs that make data again before the tasks that need it.
#include "policies/training/transfers/rerun_order.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "lib/training/graph/task_uses.h"

namespace tidepool::transfers {

RerunOrder::RerunOrder(const TaskGraph& graph, std::vector<std::size_t> algorithms)
    : graph_(graph),
      algorithms_(std::move(algorithms)),
      ends_(graph.tasks.size() + 1),
      writers_(graph.data.size(), graph.tasks.size()),
      can_run_again_(graph.tasks.size() + 1),
      kept_bytes_(graph.tasks.size() + 1) {
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    for (const std::size_t data : graph.tasks[task].writes) writers_[data] = task;
  }
  FindPasses();
  FindWhatCanRunAgain();
  FindKeptBytes();
  FindCuts();
}

void RerunOrder::FindPasses() {
  for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
    if (graph_.tasks[task].phase != TaskPhase::kForward) continue;
    if (passes_.empty() || passes_.back().end != task) passes_.push_back({task, task});
    passes_.back().end = task + 1;
    ++forward_tasks_;
  }
  for (const Pass& pass : passes_) {
    for (std::size_t task = pass.begin; task < pass.end; ++task) ends_[task] = pass.end;
  }
}

void RerunOrder::FindWhatCanRunAgain() {
  const std::size_t tasks = graph_.tasks.size();
  std::vector<std::size_t> next_change(graph_.data.size(), tasks);  // the next task to update it
  std::vector<std::size_t> last_need(graph_.data.size());           // by the last run of a task
  for (std::size_t number = tasks; number-- > 0;) {
    const GraphTask& task = graph_.tasks[number];
    std::size_t last_run = number;
    for (const std::size_t data : task.writes) last_run = std::max(last_run, last_need[data]);
    bool can = ends_[number] > 0 && task.may_rerun;
    for (const std::size_t data : task.reads) can = can && next_change[data] >= last_run;
    // A task that updates a result would have to run again too, and may not.
    for (const std::size_t data : task.writes) {
      can = can && next_change[data] == tasks && !ExistsBefore(graph_.data[data]);
    }
    can_run_again_[number] = can;
    if (!can) last_run = number;
    for (const std::size_t data : task.updates) next_change[data] = number;
    for (const std::size_t data : graph::InputsOf(task)) {
      last_need[data] = std::max(last_need[data], last_run);
    }
  }
}

void RerunOrder::FindKeptBytes() {
  std::vector<bool> is_kept(graph_.data.size());
  for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
    for (const std::size_t data : graph::InputsOf(graph_.tasks[task])) {
      if (IsAfterPassOfWriter(task, data)) is_kept[data] = true;
    }
  }
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    if (is_kept[data]) kept_bytes_[writers_[data]] += graph_.data[data].bytes;
  }
}

void RerunOrder::FindCuts() {
  std::vector<std::size_t> last_use(graph_.data.size());  // in the pass of its writer
  for (const Pass& pass : passes_) {
    for (std::size_t task = pass.begin; task < pass.end; ++task) {
      for (const std::size_t data : graph::InputsOf(graph_.tasks[task])) {
        if (ends_[writers_[data]] == pass.end) last_use[data] = task;
      }
    }
  }
  // By task: changes of the number of results that later tasks of the pass need, and of the sum of
  // their writers. The sum is the writer where the number is one.
  std::vector<std::int64_t> results(graph_.tasks.size() + 1);
  std::vector<std::int64_t> writers(graph_.tasks.size() + 1);
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    const std::size_t writer = writers_[data];
    if (ends_[writer] == 0 || last_use[data] <= writer) continue;
    ++results[writer + 1];
    --results[last_use[data] + 1];
    writers[writer + 1] += static_cast<std::int64_t>(writer);
    writers[last_use[data] + 1] -= static_cast<std::int64_t>(writer);
  }
  std::int64_t needed = 0;
  std::int64_t sum = 0;
  for (std::size_t task = 0; task < graph_.tasks.size(); ++task) {
    needed += results[task];
    sum += writers[task];
    const auto writer = static_cast<std::size_t>(sum);
    if (needed == 1 && (cuts_.empty() || cuts_.back() != writer)) cuts_.push_back(writer);
  }
}

std::vector<std::size_t> RerunOrder::RunAgainWith(std::size_t task) const {
  std::vector<std::size_t> again = {task};
  absl::flat_hash_set<std::size_t> is_in = {task};
  const auto need = [&](const std::vector<std::size_t>& list) {
    for (const std::size_t data : list) {
      const std::size_t writer = writers_[data];
      const bool is_gone = can_run_again_[writer] && kept_bytes_[writer] == 0;
      if (is_gone && is_in.insert(writer).second) again.push_back(writer);
    }
  };
  for (std::size_t next = 0; next < again.size(); ++next) {
    need(graph_.tasks[again[next]].reads);
    need(graph_.tasks[again[next]].updates);
  }
  return again;
}

std::vector<TaskRun> RerunOrder::Make(const std::vector<bool>& runs_again) const {
  std::vector<bool> is_gone(graph_.tasks.size() + 1);  // the results of a task
  std::vector<TaskRun> runs;
  runs.reserve(2 * graph_.tasks.size());
  std::vector<std::size_t> stack;
  auto pass = passes_.begin();
  for (std::size_t next = 0; next < graph_.tasks.size(); ++next) {
    // Each task on the stack runs after those that it needs.
    stack.push_back(next);
    while (!stack.empty()) {
      const std::size_t task = stack.back();
      if (task != next && !is_gone[task]) {  // it ran meanwhile
        stack.pop_back();
        continue;
      }
      const std::size_t depth = stack.size();
      const auto need = [&](const std::vector<std::size_t>& list) {
        for (const std::size_t data : list) {
          if (is_gone[writers_[data]]) stack.push_back(writers_[data]);
        }
      };
      need(graph_.tasks[task].reads);
      need(graph_.tasks[task].updates);
      if (stack.size() > depth) continue;
      stack.pop_back();
      is_gone[task] = false;
      runs.push_back({task, algorithms_[task]});
    }
    if (pass == passes_.end() || pass->end != next + 1) continue;
    for (std::size_t task = pass->begin; task < pass->end; ++task) {
      is_gone[task] = can_run_again_[task] && (runs_again[task] || kept_bytes_[task] == 0);
    }
    ++pass;
  }
  return runs;
}

void RerunOrder::ChangeAtRandom(std::mt19937_64& random, std::vector<bool>& runs_again) const {
  constexpr std::uint64_t kMostTasks = 12;  // that change together
  std::size_t from = random() % forward_tasks_;
  const std::size_t count = 1 + (random() % 3 == 0 ? random() % kMostTasks : random() % 2);
  const bool is_again = random() % 2 == 0;
  auto chosen = passes_.begin();
  for (; from >= chosen->size(); ++chosen) from -= chosen->size();
  const bool in_all = passes_.size() > 1 && random() % 2 == 0;
  for (const Pass& pass : passes_) {
    if (&pass != &*chosen && !(in_all && pass.size() == chosen->size())) continue;
    for (std::size_t place = from; place < std::min(pass.size(), from + count); ++place) {
      const std::size_t task = pass.begin + place;
      if (CanRunAgain(task)) runs_again[task] = is_again;
    }
  }
}

}  // namespace tidepool::transfers
