// SPDX-License-Identifier: Apache-2.0
// Puts runs that make data again before the tasks that need it.
#include "policies/training/transfers/rerun_order.h"

#include <algorithm>
#include <utility>

namespace tidepool::transfers {

RerunOrder::RerunOrder(const TaskGraph& graph, std::vector<std::size_t> algorithms)
    : graph_(graph),
      algorithms_(std::move(algorithms)),
      writers_(graph.data.size(), graph.tasks.size()),
      can_run_again_(graph.tasks.size()),
      kept_bytes_(graph.tasks.size()) {
  while (forward_tasks_ < graph.tasks.size() &&
         graph.tasks[forward_tasks_].phase == TaskPhase::kForward) {
    ++forward_tasks_;
  }
  std::vector<bool> is_updated(graph.data.size());
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    for (const std::size_t data : graph.tasks[task].writes) writers_[data] = task;
    for (const std::size_t data : graph.tasks[task].updates) is_updated[data] = true;
  }
  for (std::size_t task = 0; task < forward_tasks_; ++task) {
    const std::vector<std::size_t>& writes = graph.tasks[task].writes;
    // A task that updates a result would have to run again too, and may not.
    can_run_again_[task] = graph.tasks[task].may_rerun &&
                           std::none_of(writes.begin(), writes.end(), [&](std::size_t data) {
                             return is_updated[data] || ExistsBefore(graph.data[data]);
                           });
  }
  std::vector<bool> is_kept(graph.data.size());
  for (std::size_t task = forward_tasks_; task < graph.tasks.size(); ++task) {
    for (const std::size_t data : graph.tasks[task].reads) is_kept[data] = true;
    for (const std::size_t data : graph.tasks[task].updates) is_kept[data] = true;
  }
  for (std::size_t data = 0; data < graph.data.size(); ++data) {
    if (is_kept[data] && writers_[data] < forward_tasks_) {
      kept_bytes_[writers_[data]] += graph.data[data].bytes;
    }
  }
  FindCuts();
}

void RerunOrder::FindCuts() {
  std::vector<std::size_t> last_use(graph_.data.size());
  for (std::size_t task = 0; task < forward_tasks_; ++task) {
    for (const std::size_t data : graph_.tasks[task].reads) last_use[data] = task;
    for (const std::size_t data : graph_.tasks[task].updates) last_use[data] = task;
  }
  // By task: changes of the number of results that later tasks need, and of the sum of their
  // writers. The sum is the writer where the number is one.
  std::vector<std::int64_t> results(forward_tasks_ + 1);
  std::vector<std::int64_t> writers(forward_tasks_ + 1);
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    const std::size_t writer = writers_[data];
    if (writer >= forward_tasks_ || last_use[data] <= writer) continue;
    ++results[writer + 1];
    --results[last_use[data] + 1];
    writers[writer + 1] += static_cast<std::int64_t>(writer);
    writers[last_use[data] + 1] -= static_cast<std::int64_t>(writer);
  }
  std::int64_t needed = 0;
  std::int64_t sum = 0;
  for (std::size_t task = 1; task < forward_tasks_; ++task) {
    needed += results[task];
    sum += writers[task];
    const auto writer = static_cast<std::size_t>(sum);
    if (needed == 1 && (cuts_.empty() || cuts_.back() != writer)) cuts_.push_back(writer);
  }
}

std::vector<std::size_t> RerunOrder::RunAgainWith(std::size_t task) const {
  std::vector<std::size_t> again = {task};
  const auto need = [&](const std::vector<std::size_t>& list) {
    for (const std::size_t data : list) {
      const std::size_t writer = writers_[data];
      const bool is_gone =
          writer < forward_tasks_ && can_run_again_[writer] && kept_bytes_[writer] == 0;
      if (is_gone && std::find(again.begin(), again.end(), writer) == again.end()) {
        again.push_back(writer);
      }
    }
  };
  for (std::size_t next = 0; next < again.size(); ++next) {
    need(graph_.tasks[again[next]].reads);
    need(graph_.tasks[again[next]].updates);
  }
  return again;
}

std::vector<TaskRun> RerunOrder::Make(const std::vector<bool>& runs_again) const {
  // Tasks without results in memory when the forward phase has ended.
  std::vector<bool> is_gone(graph_.tasks.size());
  for (std::size_t task = 0; task < forward_tasks_; ++task) {
    is_gone[task] = can_run_again_[task] && (runs_again[task] || kept_bytes_[task] == 0);
  }
  std::vector<TaskRun> runs;
  runs.reserve(2 * graph_.tasks.size());
  for (std::size_t task = 0; task < forward_tasks_; ++task)
    runs.push_back({task, algorithms_[task]});
  std::vector<std::size_t> stack;
  for (std::size_t next = forward_tasks_; next < graph_.tasks.size(); ++next) {
    // Each task on the stack runs after those that it needs.
    stack.push_back(next);
    while (!stack.empty()) {
      const std::size_t task = stack.back();
      const std::size_t depth = stack.size();
      const auto need = [&](const std::vector<std::size_t>& list) {
        for (const std::size_t data : list) {
          const std::size_t writer = writers_[data];
          if (writer < forward_tasks_ && is_gone[writer]) stack.push_back(writer);
        }
      };
      need(graph_.tasks[task].reads);
      need(graph_.tasks[task].updates);
      if (stack.size() > depth) continue;
      stack.pop_back();
      if (task != next && !is_gone[task]) continue;  // it ran meanwhile
      is_gone[task] = false;
      runs.push_back({task, algorithms_[task]});
    }
  }
  return runs;
}

void RerunOrder::ChangeAtRandom(std::mt19937_64& random, std::vector<bool>& runs_again) const {
  constexpr std::uint64_t kMostTasks = 12;  // that change together
  const std::size_t from = random() % forward_tasks_;
  const std::size_t count = 1 + (random() % 3 == 0 ? random() % kMostTasks : random() % 2);
  const bool is_again = random() % 2 == 0;
  for (std::size_t task = from; task < std::min(forward_tasks_, from + count); ++task) {
    if (CanRunAgain(task)) runs_again[task] = is_again;
  }
}

}  // namespace tidepool::transfers
