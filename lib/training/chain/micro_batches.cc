// SPDX-License-Identifier: Apache-2.0
#include "lib/training/chain/micro_batches.h"

#include "lib/training/graph/data_users.h"

namespace tidepool::chain {

MicroBatches::MicroBatches(const TaskGraph& graph)
    : graph_(graph), begins_{0}, lives_(graph.data.size(), Life{graph::kNoTask, 0}) {
  const std::vector<GraphTask>& tasks = graph.tasks;
  bool had_forward = false;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const bool is_forward = tasks[i].phase == TaskPhase::kForward;
    if (is_forward && had_forward && tasks[i - 1].phase != TaskPhase::kForward)
      begins_.push_back(i);
    had_forward |= is_forward;
  }
  begins_.push_back(tasks.size());
  const graph::DataUsers users(graph);
  for (std::size_t data = 0; data < lives_.size(); ++data) {
    const std::size_t last = users.Last(data);
    if (last != graph::kNoTask) lives_[data] = {users.First(data), last};
    if (ExistsBefore(graph.data[data])) lives_[data].first = 0;
    if (ExistsAfter(graph.data[data])) lives_[data].last = tasks.size();
  }
}

TaskGraph MicroBatches::GraphOf(std::size_t number) const {
  if (count() == 1) return graph_;
  const std::size_t begin = begins_[number];
  const std::size_t end = begins_[number + 1];
  TaskGraph part;
  part.name = graph_.name;
  part.link_bytes_per_second = graph_.link_bytes_per_second;
  part.tasks.assign(graph_.tasks.begin() + static_cast<std::ptrdiff_t>(begin),
                    graph_.tasks.begin() + static_cast<std::ptrdiff_t>(end));
  part.data = graph_.data;
  for (std::size_t data = 0; data < lives_.size(); ++data) {
    const auto& [first, last] = lives_[data];
    GraphData& datum = part.data[data];
    const bool is_here = first < end && last >= begin;
    const bool was_before = is_here && (first < begin || ExistsBefore(datum));
    // Inputs come when the iteration starts.
    const bool comes = was_before && number == 0 && last < end;
    if (!comes) datum.before = was_before ? DataHome::kDevice : DataHome::kNowhere;
    datum.after = is_here && last >= end ? DataHome::kDevice : DataHome::kNowhere;
  }
  return part;
}

void MicroBatches::RenumberTasks(std::size_t number, GraphChain& made) const {
  const std::size_t begin = begins_[number];
  for (GraphChain::Part& part : made.parts) {
    for (std::size_t* task :
         {&part.forward_begin, &part.forward_end, &part.backward_begin, &part.backward_end}) {
      *task += begin;
    }
  }
  made.algorithms.insert(made.algorithms.begin(), begin, 0);
}

}  // namespace tidepool::chain
