// SPDX-License-Identifier: Apache-2.0
// Makes the chain of a task graph: cuts, the memory of each part from the graph's walk, and the
// data that the chain may offload.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/text/quote.h"
#include "lib/training/chain/chain_cuts.h"
#include "lib/training/chain/graph_walk.h"
#include "lib/training/chain/lasting_data.h"
#include "lib/training/chain/repeated_parts.h"
#include "tidepool/training/chain.h"

namespace tidepool::chain {
namespace {

using Part = GraphChain::Part;
using Sizes = std::vector<std::int64_t>;

// Long-lived data waits at least while forward tasks write a 64th of all data.
constexpr std::int64_t kMostParts = 64;

std::vector<Part> PartsBetween(const std::vector<Cut>& cuts, const GraphWalk& walk,
                               std::size_t tasks) {
  std::vector<Part> parts;
  std::size_t forward = 0;
  std::size_t backward = tasks;
  for (const Cut& cut : cuts) {
    parts.push_back({forward, cut.forward, cut.backward, backward});
    forward = cut.forward;
    backward = cut.backward;
  }
  parts.push_back({forward, walk.forward_tasks, walk.forward_tasks, backward});
  return parts;
}

std::int64_t Most(const Sizes& bytes, std::size_t begin, std::size_t end) {
  std::int64_t most = 0;
  for (std::size_t i = begin; i < end; ++i) most = std::max(most, bytes[i]);
  return most;
}

class ChainMaker {
 public:
  ChainMaker(const TaskGraph& graph, std::vector<std::size_t> algorithms, bool recomputation)
      : graph_(graph), walk_(WalkGraph(graph, algorithms)), recomputation_(recomputation) {
    made_.algorithms = std::move(algorithms);
  }

  GraphChain Make();

 private:
  void SetParts(const std::vector<Cut>& cuts);
  bool IsInput(std::size_t data) const;
  void FindInputs();
  std::int64_t BackwardSlack(std::size_t i, std::int64_t kept) const;
  std::int64_t GradientsAfter(std::size_t i) const;
  std::vector<Cut> CutsThatHold(const std::vector<Cut>& cuts) const;
  void FillSeconds();
  void FillActivations();
  void FillExtras();

  const TaskGraph& graph_;
  GraphWalk walk_;
  const bool recomputation_;
  GraphChain made_;
  std::vector<std::size_t> part_of_;  // by forward task
  std::vector<bool> is_input_;        // by data: whether it is in x_0
};

void ChainMaker::SetParts(const std::vector<Cut>& cuts) {
  made_.parts = PartsBetween(cuts, walk_, graph_.tasks.size());
  part_of_.assign(walk_.forward_tasks, 0);
  for (std::size_t i = 0; i < made_.parts.size(); ++i) {
    const Part& part = made_.parts[i];
    std::fill(part_of_.begin() + static_cast<std::ptrdiff_t>(part.forward_begin),
              part_of_.begin() + static_cast<std::ptrdiff_t>(part.forward_end), i);
  }
}

// Whether an input can be x_0: F_0 leaves it unchanged, B_0 uses it, and no other operation does.
bool ChainMaker::IsInput(std::size_t data) const {
  const DataUses& uses = walk_.uses[data];
  const Part& first = made_.parts.front();
  if (IsResident(graph_.data[data]) || !ExistsBefore(graph_.data[data])) return false;
  if (uses.last_forward_update != kNoTask) return false;
  if (uses.last_forward == kNoTask || uses.last_forward >= first.forward_end) return false;
  return uses.first_backward != kNoTask && uses.first_backward >= first.backward_begin &&
         !ExistsAfter(graph_.data[data]);
}

void ChainMaker::FindInputs() {
  is_input_.resize(graph_.data.size());
  for (std::size_t i = 0; i < is_input_.size(); ++i) is_input_[i] = IsInput(i);
}

void ChainMaker::FillActivations() {
  made_.activations.assign(made_.parts.size() + 1, {});
  made_.chain.x.assign(made_.parts.size() + 1, 0);
  for (std::size_t data = 0; data < graph_.data.size(); ++data) {
    const DataUses& uses = walk_.uses[data];
    const bool is_made = uses.writer < walk_.forward_tasks && !IsResident(graph_.data[data]) &&
                         uses.first_backward != kNoTask && !ExistsAfter(graph_.data[data]);
    if (!is_made && !is_input_[data]) continue;
    const std::size_t at = is_made ? part_of_[uses.writer] + 1 : 0;
    made_.activations[at].push_back(data);
    made_.chain.x[at] += graph_.data[data].bytes;
  }
}

// Returns the bytes at the peak of B_i beside the activations x_0, ..., x_(i+1), which have `kept`
// bytes.
std::int64_t ChainMaker::BackwardSlack(std::size_t i, std::int64_t kept) const {
  const Part& part = made_.parts[i];
  return Most(walk_.bytes, part.backward_begin, part.backward_end) - kept;
}

// The last part needs all activations at its start, so a part can always be joined with the next.
std::vector<Cut> ChainMaker::CutsThatHold(const std::vector<Cut>& cuts) const {
  std::vector<Cut> holding;
  std::int64_t kept = made_.chain.x[0];
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    kept += made_.chain.x[i + 1];
    if (BackwardSlack(i, kept) >= 0) holding.push_back(cuts[i]);
  }
  return holding;
}

void ChainMaker::FillSeconds() {
  const auto sum = [&](std::size_t begin, std::size_t end) {
    double seconds = 0;
    for (std::size_t i = begin; i < end; ++i) {
      seconds += graph_.tasks[i].algorithms[made_.algorithms[i]].seconds;
    }
    return seconds;
  };
  for (const Part& part : made_.parts) {
    made_.chain.forward_seconds.push_back(sum(part.forward_begin, part.forward_end));
    made_.chain.backward_seconds.push_back(sum(part.backward_begin, part.backward_end));
  }
}

// Returns the bytes of gradients that B_i leaves; those of B_0 are the results of the chain.
std::int64_t ChainMaker::GradientsAfter(std::size_t i) const {
  const Part& part = made_.parts[i];
  if (part.backward_end == walk_.forward_tasks) return 0;
  if (i > 0) return walk_.gradients_after[part.backward_end - 1];
  std::int64_t bytes = 0;
  for (std::size_t task = part.backward_begin; task < part.backward_end; ++task) {
    for (const std::size_t data : graph_.tasks[task].writes) {
      const bool is_result = walk_.uses[data].last_backward == task;
      if (is_result && !IsResident(graph_.data[data])) bytes += graph_.data[data].bytes;
    }
  }
  return bytes;
}

void ChainMaker::FillExtras() {
  Chain& chain = made_.chain;
  const std::size_t operations = made_.parts.size();
  Sizes slack;
  std::int64_t kept = chain.x[0];
  for (std::size_t i = 0; i < operations; ++i) {
    const Part& part = made_.parts[i];
    kept += chain.x[i + 1];
    chain.forward_extra.push_back(Most(walk_.bytes, part.forward_begin, part.forward_end) - kept);
    slack.push_back(std::max<std::int64_t>(0, BackwardSlack(i, kept)));
  }
  chain.y.assign(operations + 1, 0);
  for (std::size_t i = operations; i-- > 0;) {
    chain.y[i] = GradientsAfter(i);
    // Beside tasks that run again gradients have all of their memory.
    if (recomputation_) continue;
    chain.y[i] = std::min(chain.y[i], slack[i] - chain.y[i + 1]);
    if (i > 0) chain.y[i] = std::min(chain.y[i], slack[i - 1]);
  }
  for (std::size_t i = 0; i < operations; ++i) {
    // Gradients that stay through B_i count in both.
    const std::int64_t both = recomputation_ ? std::min(chain.y[i], chain.y[i + 1]) : 0;
    chain.backward_extra.push_back(std::max(-both, slack[i] - chain.y[i] - chain.y[i + 1]));
  }
}

GraphChain ChainMaker::Make() {
  std::vector<Cut> cuts = FindCuts(graph_, walk_);
  if (recomputation_) cuts = CutsForRecomputation(graph_, walk_, cuts);
  SetParts(cuts);
  FindInputs();
  FillActivations();
  cuts = CutsThatHold(cuts);
  SetParts(cuts);
  FillActivations();
  FillSeconds();
  FillExtras();
  made_.resident_bytes = walk_.resident_peak;
  if (recomputation_) AddRecomputation(graph_, walk_, cuts, made_);
  return std::move(made_);
}

// Returns the chain of a graph that may run parts again.
GraphChain MakeRepeatable(const TaskGraph& graph, const std::vector<std::size_t>& algorithms) {
  TaskGraph seen = WithLastingData(graph, algorithms);
  LetGradientsCome(seen);
  GraphChain made;
  // Data that stays allows more cuts.
  do {
    LetInputsOfPartsLast(algorithms, seen);
    made = ChainMaker(seen, algorithms, true).Make();
  } while (KeepInputs(made, seen) || KeepResultsOfOneRun(made, seen));
  return made;
}

// Returns the most bytes of an iteration in which each part that may run again keeps its output
// alone until it does.
std::int64_t BytesWithReruns(const GraphChain& made) {
  const Chain& chain = made.chain;
  std::int64_t kept = 0;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < made.parts.size(); ++i) {
    const bool is_kept =
        i > 0 && std::binary_search(chain.runs_once.begin(), chain.runs_once.end(), i - 1);
    kept += is_kept ? chain.x[i] : chain.output[i];
    const std::int64_t backward = chain.y[i] + chain.y[i + 1] + chain.backward_extra[i];
    most = std::max(most, kept + chain.x[i + 1] + std::max(chain.forward_extra[i], backward));
  }
  return most + made.resident_bytes;
}

// Returns the chain that needs least memory, of those with the long-lived data resident or not.
GraphChain MakeForRecomputation(const TaskGraph& graph,
                                const std::vector<std::size_t>& algorithms) {
  GraphChain best = MakeRepeatable(graph, algorithms);
  for (std::int64_t part = 2; part <= kMostParts; part *= 2) {
    GraphChain made = MakeRepeatable(WithLongLivedData(graph, algorithms, part), algorithms);
    if (BytesWithReruns(made) < BytesWithReruns(best)) best = std::move(made);
  }
  return best;
}

absl::Status CheckOrder(const TaskGraph& graph) {
  bool was_backward = false;
  for (const GraphTask& task : graph.tasks) {
    if (task.phase != TaskPhase::kForward) {
      was_backward = true;
    } else if (was_backward) {
      return absl::InvalidArgumentError(
          absl::StrCat("task ", text::Quoted(task.name),
                       " is of the forward phase and comes after a backward task, as where "
                       "gradients of micro-batches add up; a chain has each task of a layer once, "
                       "expected all forward tasks first, as in the graph of one micro-batch"));
    }
  }
  if (graph.tasks.front().phase == TaskPhase::kForward) return absl::OkStatus();
  return absl::InvalidArgumentError("no forward task, expected one or more");
}

absl::Status CheckOptions(const TaskGraph& graph, const std::vector<std::size_t>& algorithms,
                          double link) {
  if (!(link > 0 && link <= kMostLinkBytesPerSecond)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a link of ", link, " bytes a second, expected more than 0, and at most 10^18"));
  }
  if (algorithms.size() != graph.tasks.size()) {
    return absl::InvalidArgumentError(absl::StrCat(algorithms.size(), " algorithms for ",
                                                   graph.tasks.size(),
                                                   " tasks, expected one for each"));
  }
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    if (algorithms[i] < graph.tasks[i].algorithms.size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("algorithm ", algorithms[i], " of task ", text::Quoted(graph.tasks[i].name),
                     ", expected 0 to ", graph.tasks[i].algorithms.size() - 1));
  }
  return CheckOrder(graph);
}

}  // namespace
}  // namespace tidepool::chain

namespace tidepool {

absl::StatusOr<GraphChain> ToChain(const TaskGraph& graph, const ChainOptions& options) {
  std::vector<std::size_t> algorithms = options.algorithms;
  if (algorithms.empty()) algorithms.resize(graph.tasks.size());
  const double link = options.link_bytes_per_second > 0 ? options.link_bytes_per_second
                                                        : graph.link_bytes_per_second;
  if (absl::Status status = chain::CheckOptions(graph, algorithms, link); !status.ok()) {
    return status;
  }
  GraphChain made =
      options.recomputation
          ? chain::MakeForRecomputation(graph, algorithms)
          : chain::ChainMaker(chain::WithLastingData(graph, algorithms), algorithms, false).Make();
  made.chain.link_bytes_per_second = link;
  made.chain.memory_bytes = options.memory_bytes - made.resident_bytes;
  if (made.chain.memory_bytes >= 0) return made;
  return absl::ResourceExhaustedError(
      absl::StrCat("weights and their gradients need ", made.resident_bytes,
                   " bytes, expected a memory of at least as many, not ", options.memory_bytes));
}

}  // namespace tidepool
