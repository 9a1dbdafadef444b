// SPDX-License-Identifier: Apache-2.0
// Keeps the uses of each datum in the order of runs.
#include "policies/training/chain/task_runs.h"

#include <algorithm>

namespace tidepool::chain_policies {

void TaskRuns::AddUses(const std::vector<std::size_t>& data, bool writes, bool changes) {
  for (const std::size_t used : data) uses_[used].push_back({runs_.size() - 1, writes, changes});
}

void TaskRuns::Add(std::size_t task, double start, double end) {
  runs_.push_back({task, start, end});
  const GraphTask& one = graph_.tasks[task];
  AddUses(one.reads, false, false);
  AddUses(one.updates, false, true);
  AddUses(one.writes, true, true);
}

void TaskRuns::Finish() {
  for (std::size_t data = 0; data < uses_.size(); ++data) {
    const std::vector<Use>& uses = uses_[data];
    for (std::size_t k = 0; k + 1 < uses.size(); ++k) {
      if (uses[k + 1].writes) runs_[uses[k].run].leaving.push_back(data);
    }
    if (!uses.empty()) runs_[uses.back().run].finished.push_back(data);
  }
}

bool TaskRuns::IsNeeded(std::size_t data, std::size_t position) const {
  const std::vector<Use>& uses = uses_[data];
  const auto next = std::partition_point(uses.begin(), uses.end(),
                                         [&](const Use& use) { return use.run < position; });
  return next != uses.end() && !next->writes;
}

std::size_t TaskRuns::AfterUse(std::size_t data, std::size_t position) const {
  const std::vector<Use>& uses = uses_[data];
  const auto next = std::partition_point(uses.begin(), uses.end(),
                                         [&](const Use& use) { return use.run < position; });
  return next == uses.begin() ? 0 : std::prev(next)->run + 1;
}

std::size_t TaskRuns::AfterChange(std::size_t data, std::size_t position) const {
  std::size_t after = 0;
  for (const Use& use : uses_[data]) {
    if (use.run < position && use.changes) after = use.run + 1;
  }
  return after;
}

}  // namespace tidepool::chain_policies
