// SPDX-License-Identifier: Apache-2.0
// Finds cuts with a few sweeps over the tasks.
#include "lib/training/chain/chain_cuts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "lib/training/graph/task_uses.h"

namespace tidepool::chain {
namespace {

class CutFinder {
 public:
  CutFinder(const TaskGraph& graph, const GraphWalk& walk);

  std::vector<Cut> Find();

 private:
  // Whether forward tasks hand the datum from one to the next. Inputs come from elsewhere.
  bool IsHandedOn(std::size_t data) const {
    return !IsResident(graph_.data[data]) && walk_.uses[data].writer < walk_.forward_tasks;
  }
  void FindCrossings();
  void FindBounds();
  void FindOwners();
  std::size_t LatestOf(std::size_t cut) const;
  bool CanCut(std::size_t cut) const;

  const TaskGraph& graph_;
  const GraphWalk& walk_;
  // By forward task p, for the cut before it:
  std::vector<std::size_t> crossing_;   // how many data cross
  std::vector<std::size_t> separator_;  // the datum that crosses, if it is one
  std::vector<std::size_t> earliest_;   // bound of the cut among backward tasks
  // The two data of the first part that backward tasks use first.
  struct FirstUses {
    std::size_t data = kNoTask;
    std::size_t task = kNoTask;
    std::size_t second_task = kNoTask;
  };
  std::vector<FirstUses> first_uses_;
  // By task: the last forward task of its layer, or that uses its weights; kNoTask: unknown.
  std::vector<std::size_t> owners_;
};

CutFinder::CutFinder(const TaskGraph& graph, const GraphWalk& walk)
    : graph_(graph),
      walk_(walk),
      crossing_(walk.forward_tasks + 1),
      separator_(walk.forward_tasks + 1),
      earliest_(walk.forward_tasks + 1, walk.forward_tasks),
      first_uses_(walk.forward_tasks + 1),
      owners_(graph.tasks.size(), kNoTask) {
  FindCrossings();
  FindBounds();
  FindOwners();
}

void CutFinder::FindCrossings() {
  // Numbers of data are added up, so that the sum is the datum where one crosses. Sums wrap around.
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    const DataUses& uses = walk_.uses[data];
    if (!IsHandedOn(data)) continue;
    ++crossing_[uses.writer + 1];
    separator_[uses.writer + 1] += data;
    --crossing_[uses.last_forward + 1];
    separator_[uses.last_forward + 1] -= data;
  }
  for (std::size_t p = 1; p < crossing_.size(); ++p) {
    crossing_[p] += crossing_[p - 1];
    separator_[p] += separator_[p - 1];
  }
}

void CutFinder::FindBounds() {
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    const DataUses& uses = walk_.uses[data];
    if (!IsHandedOn(data) || uses.last_backward == kNoTask) continue;
    earliest_[uses.writer] = std::max(earliest_[uses.writer], uses.last_backward + 1);
    FirstUses& first = first_uses_[uses.writer + 1];
    if (uses.first_backward < first.task) {
      first = {data, uses.first_backward, first.task};
    } else {
      first.second_task = std::min(first.second_task, uses.first_backward);
    }
  }
  for (std::size_t p = earliest_.size() - 1; p-- > 0;) {
    earliest_[p] = std::max(earliest_[p], earliest_[p + 1]);
  }
  for (std::size_t p = 1; p < first_uses_.size(); ++p) {
    FirstUses& own = first_uses_[p];
    const FirstUses& before = first_uses_[p - 1];
    if (before.task < own.task) {
      own = {before.data, before.task, std::min(before.second_task, own.task)};
    } else {
      own.second_task = std::min(own.second_task, before.task);
    }
  }
}

void CutFinder::FindOwners() {
  absl::flat_hash_map<std::string_view, std::size_t> layers;
  for (std::size_t i = 0; i < walk_.forward_tasks; ++i) {
    if (!graph_.tasks[i].layer.empty()) layers[graph_.tasks[i].layer] = i;
  }
  for (std::size_t i = walk_.forward_tasks; i < graph_.tasks.size(); ++i) {
    const GraphTask& task = graph_.tasks[i];
    if (const auto layer = layers.find(task.layer); layer != layers.end()) {
      owners_[i] = layer->second;
      continue;
    }
    for (const std::size_t data : graph::InputsOf(task)) {
      const std::size_t last = walk_.uses[data].last_forward;
      if (graph_.data[data].kind != DataKind::kWeight || last == kNoTask) continue;
      owners_[i] = owners_[i] == kNoTask ? last : std::max(owners_[i], last);
    }
  }
}

// Returns the last backward task before which the cut may lie: an earlier one uses only the
// separator of the first part.
std::size_t CutFinder::LatestOf(std::size_t cut) const {
  const FirstUses& first = first_uses_[cut];
  const bool is_separator = crossing_[cut] == 1 && first.data == separator_[cut];
  return std::min(graph_.tasks.size(), is_separator ? first.second_task : first.task);
}

bool CutFinder::CanCut(std::size_t cut) const {
  if (crossing_[cut] > 1 || earliest_[cut] > LatestOf(cut)) return false;
  if (crossing_[cut] == 0) return true;
  const std::size_t update = walk_.uses[separator_[cut]].last_forward_update;
  return update == kNoTask || update < cut;
}

std::vector<Cut> CutFinder::Find() {
  std::vector<Cut> cuts;
  // From the last cut to the first, the backward task moves on only.
  std::size_t backward = walk_.forward_tasks;
  for (std::size_t p = walk_.forward_tasks; p-- > 1;) {
    if (!CanCut(p)) continue;
    const std::size_t latest = LatestOf(p);
    backward = std::max(backward, earliest_[p]);
    while (backward < latest && (owners_[backward] == kNoTask || owners_[backward] >= p)) {
      ++backward;
    }
    const std::size_t separator = crossing_[p] == 1 ? separator_[p] : kNoTask;
    cuts.push_back({p, backward, earliest_[p], latest, separator});
  }
  std::reverse(cuts.begin(), cuts.end());
  // A separator crosses one cut: the part after it ends its forward use.
  std::vector<Cut> chosen;
  for (const Cut& cut : cuts) {
    const std::size_t begin = chosen.empty() ? 0 : chosen.back().forward;
    if (crossing_[cut.forward] == 1 && walk_.uses[separator_[cut.forward]].writer < begin) continue;
    chosen.push_back(cut);
  }
  return chosen;
}

}  // namespace

std::vector<Cut> FindCuts(const TaskGraph& graph, const GraphWalk& walk) {
  return CutFinder(graph, walk).Find();
}

}  // namespace tidepool::chain
