// SPDX-License-Identifier: Apache-2.0
// Walks through the forward tasks of each part alone.
#include "lib/training/chain/repeated_parts.h"

#include <algorithm>
#include <cstdint>

#include "lib/training/graph/task_uses.h"

namespace tidepool::chain {
namespace {

using Part = GraphChain::Part;

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

// Returns the bytes of inputs outside x_0. They may be needed until the last forward task has run
// again, so they count as resident.
std::int64_t OtherInputs(const TaskGraph& graph, const GraphChain& made) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) {
    if (!IsResident(data) && ExistsBefore(data)) bytes += data.bytes;
  }
  for (const std::size_t data : made.activations.front()) bytes -= graph.data[data].bytes;
  return bytes;
}

bool MayRerun(const TaskGraph& graph, const Part& part) {
  return std::all_of(graph.tasks.begin() + static_cast<std::ptrdiff_t>(part.forward_begin),
                     graph.tasks.begin() + static_cast<std::ptrdiff_t>(part.forward_end),
                     [](const GraphTask& task) { return task.may_rerun; });
}

}  // namespace

std::vector<Cut> CutsForRecomputation(const TaskGraph& graph, const GraphWalk& walk,
                                      const std::vector<Cut>& cuts) {
  std::vector<Cut> kept;
  for (const Cut& cut : cuts) {
    const bool is_kept =
        cut.separator == kNoTask || (walk.uses[cut.separator].first_backward != kNoTask &&
                                     !ExistsAfter(graph.data[cut.separator]));
    if (is_kept) kept.push_back(cut);
  }
  return kept;
}

void AddRecomputation(const TaskGraph& graph, const GraphWalk& walk, const std::vector<Cut>& cuts,
                      GraphChain& made) {
  Chain& chain = made.chain;
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
    if (!MayRerun(graph, part)) chain.runs_once.push_back(i);
  }
  made.resident_bytes += OtherInputs(graph, made);
}

}  // namespace tidepool::chain
