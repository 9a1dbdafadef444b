// SPDX-License-Identifier: Apache-2.0
// Walks through the forward tasks of each part alone.
#include "lib/training/chain/repeated_parts.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>

#include "lib/training/chain/lasting_data.h"
#include "lib/training/graph/task_uses.h"

namespace tidepool::chain {
namespace {

using Part = GraphChain::Part;

// How many times its bytes a datum must save on each side of a cut to be kept for it.
constexpr std::int64_t kTimesSaved = 4;

// Returns the most bytes of the tasks of a part beside the data of other parts, when data leaves
// after its last use in the part, except for the output.
std::int64_t PeakOf(const TaskGraph& graph, const GraphWalk& walk, const GraphChain& made,
                    const Part& part, std::size_t output) {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (std::size_t i = part.forward_begin; i < part.forward_end; ++i) {
    const GraphTask& task = graph.tasks[i];
    for (const std::size_t data : task.writes) {
      if (!IsResident(graph.data[data])) live += graph.data[data].bytes;
    }
    peak = std::max(peak, live + task.algorithms[made.algorithms[i]].workspace_bytes);
    for (const std::size_t data : graph::UsesOf(task)) {
      const DataUses& uses = walk.uses[data];
      const bool is_own = uses.writer >= part.forward_begin && uses.writer < part.forward_end;
      if (!is_own || uses.last_forward != i || data == output) continue;
      if (!IsResident(graph.data[data])) live -= graph.data[data].bytes;
    }
  }
  return peak;
}

// Whether the datum has the same value after a forward task and when its part runs again: only
// later tasks of the same part, which run again too, update it.
bool KeepsItsValue(const TaskGraph& graph, const GraphWalk& walk, const Part& part,
                   std::size_t number, std::size_t data) {
  const DataUses& uses = walk.uses[data];
  const std::size_t update = uses.first_backward_update;
  if (update != kNoTask && update < part.backward_begin) return false;
  const bool is_own = uses.writer >= part.forward_begin && uses.writer < part.forward_end;
  if (is_own && !IsResident(graph.data[data])) return true;
  return uses.last_forward_update == kNoTask || uses.last_forward_update < number;
}

// Whether the task may run again with its part: data that it reads has its old value then, and no
// later task has changed the data that it writes.
bool MayRerun(const TaskGraph& graph, const GraphWalk& walk, const Part& part, std::size_t number) {
  const GraphTask& task = graph.tasks[number];
  const auto keeps = [&](std::size_t data) {
    return KeepsItsValue(graph, walk, part, number, data);
  };
  return task.may_rerun && std::all_of(task.reads.begin(), task.reads.end(), keeps) &&
         std::all_of(task.writes.begin(), task.writes.end(), keeps);
}

bool MayRerun(const TaskGraph& graph, const GraphWalk& walk, const GraphChain& made,
              const Part& part) {
  for (std::size_t i = part.forward_begin; i < part.forward_end; ++i) {
    if (!MayRerun(graph, walk, part, i) && !IsLeftOut(graph.tasks[i], made.resident)) return false;
  }
  return true;
}

// Returns the data outside the resident one that tasks of a part write that may not run again.
// Nothing if such a task updates data, which a second run would begin without the update.
std::vector<std::size_t> ResultsOfOneRun(const TaskGraph& seen, const Part& part) {
  std::vector<std::size_t> results;
  const auto is_resident = [&](std::size_t data) { return IsResident(seen.data[data]); };
  for (std::size_t i = part.forward_begin; i < part.forward_end; ++i) {
    const GraphTask& task = seen.tasks[i];
    if (task.may_rerun) continue;
    if (!std::all_of(task.updates.begin(), task.updates.end(), is_resident)) return {};
    std::copy_if(task.writes.begin(), task.writes.end(), std::back_inserter(results),
                 std::not_fn(is_resident));
  }
  return results;
}

// Whether parts after a cut may run again: backward tasks need its datum, so the chain holds it.
bool IsHeld(const TaskGraph& graph, const GraphWalk& walk, const Cut& cut) {
  return cut.separator == kNoTask || (walk.uses[cut.separator].first_backward != kNoTask &&
                                      !ExistsAfter(graph.data[cut.separator]));
}

// Returns, by cut, the first forward task of the next one that is held.
std::vector<std::size_t> NextHeld(const TaskGraph& graph, const GraphWalk& walk,
                                  const std::vector<Cut>& cuts) {
  std::vector<std::size_t> next(cuts.size(), walk.forward_tasks);
  for (std::size_t i = cuts.size(); i-- > 1;) {
    next[i - 1] = IsHeld(graph, walk, cuts[i]) ? cuts[i].forward : next[i];
  }
  return next;
}

// Returns the cuts at data that is not held, but saves more memory than it takes.
std::vector<Cut> CutsThatPay(const TaskGraph& graph, const GraphWalk& walk) {
  const std::vector<std::int64_t> needed = NeededBytesBefore(graph, walk);
  const std::vector<Cut> cuts = FindCuts(graph, walk);
  const std::vector<std::size_t> next = NextHeld(graph, walk, cuts);
  std::vector<Cut> paying;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const Cut& cut = cuts[i];
    if (!IsHeld(graph, walk, cut)) {
      const std::int64_t saved =
          std::min(needed[cut.forward] - needed[begin], needed[next[i]] - needed[cut.forward]);
      const GraphData& input = graph.data[cut.separator];
      const bool pays = saved > 0 && saved / kTimesSaved >= input.bytes;
      if (!pays || ExistsAfter(input) || cut.backward == graph.tasks.size()) continue;
      paying.push_back(cut);
    }
    begin = cut.forward;
  }
  return paying;
}

}  // namespace

bool KeepInputs(const GraphChain& made, TaskGraph& seen) {
  std::vector<bool> is_first(seen.data.size());  // in x_0
  for (const std::size_t data : made.activations.front()) is_first[data] = true;
  bool has_kept = false;
  for (std::size_t data = 0; data < seen.data.size(); ++data) {
    GraphData& one = seen.data[data];
    if (IsResident(one) || !ExistsBefore(one) || is_first[data]) continue;
    MakeResident(one);
    has_kept = true;
  }
  return has_kept;
}

void LetInputsOfPartsLast(const std::vector<std::size_t>& algorithms, TaskGraph& seen) {
  for (const Cut& cut : CutsThatPay(seen, WalkGraph(seen, algorithms))) {
    seen.tasks[cut.backward].reads.push_back(cut.separator);
  }
}

void LetGradientsCome(TaskGraph& seen) {
  for (GraphData& data : seen.data) {
    if (data.kind == DataKind::kWeightGradient && !ExistsBefore(data))
      data.kind = DataKind::kGradient;
  }
}

bool KeepResultsOfOneRun(const GraphChain& made, TaskGraph& seen) {
  bool has_kept = false;
  for (std::size_t i = 0; i < made.parts.size(); ++i) {
    const std::vector<std::size_t> results = ResultsOfOneRun(seen, made.parts[i]);
    std::int64_t bytes = 0;
    for (const std::size_t data : results) bytes += seen.data[data].bytes;
    if (results.empty() || bytes > made.chain.x[i + 1] / 2) continue;
    for (const std::size_t data : results) MakeResident(seen.data[data]);
    has_kept = true;
  }
  return has_kept;
}

std::vector<Cut> CutsForRecomputation(const TaskGraph& graph, const GraphWalk& walk,
                                      const std::vector<Cut>& cuts) {
  std::vector<Cut> kept;
  std::copy_if(cuts.begin(), cuts.end(), std::back_inserter(kept),
               [&](const Cut& cut) { return IsHeld(graph, walk, cut); });
  return kept;
}

void AddRecomputation(const TaskGraph& graph, const GraphWalk& walk, const std::vector<Cut>& cuts,
                      GraphChain& made) {
  Chain& chain = made.chain;
  for (const GraphData& data : graph.data) made.resident.push_back(IsResident(data));
  chain.output = chain.x;
  made.outputs.assign(chain.x.size(), GraphChain::kNoOutput);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::size_t separator = cuts[i].separator;
    const std::int64_t bytes = separator == kNoTask ? 0 : graph.data[separator].bytes;
    if (bytes == chain.x[i + 1]) continue;
    chain.output[i + 1] = bytes;
    made.outputs[i + 1] = separator;
  }
  for (std::size_t i = 0; i < made.parts.size(); ++i) {
    const Part& part = made.parts[i];
    const std::size_t output = i < cuts.size() ? cuts[i].separator : kNoTask;
    const std::int64_t peak = PeakOf(graph, walk, made, part, output);
    chain.output_extra.push_back(std::max<std::int64_t>(0, peak - chain.output[i + 1]));
    if (!MayRerun(graph, walk, made, part)) chain.runs_once.push_back(i);
  }
}

}  // namespace tidepool::chain
