// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/chained_policy.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/training/chain/micro_batches.h"
#include "policies/training/chain/schedule_chains.h"
#include "policies/training/layerwise/layerwise.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_options.h"
#include "tidepool/training/chain.h"

namespace tidepool::search {
namespace {

using chain_policies::ScheduledChain;

// Returns the graph with whole granules, so that a chain that fits also fits the device.
TaskGraph InGranules(const TaskGraph& graph, std::int64_t granule) {
  TaskGraph rounded = graph;
  for (GraphData& data : rounded.data) data.bytes = RoundUp(data.bytes, granule);
  for (GraphTask& task : rounded.tasks) {
    for (TaskAlgorithm& algorithm : task.algorithms) {
      algorithm.workspace_bytes = RoundUp(algorithm.workspace_bytes, granule);
    }
  }
  return rounded;
}

// Returns, by task, the fastest algorithm with a workspace of at most `most_workspace` bytes.
std::vector<std::size_t> AlgorithmsWithin(const TaskGraph& graph, std::int64_t most_workspace) {
  std::vector<std::size_t> algorithms;
  algorithms.reserve(graph.tasks.size());
  for (const GraphTask& task : graph.tasks) {
    algorithms.push_back(layerwise::FastestAlgorithm(task, most_workspace));
  }
  return algorithms;
}

// Returns the limits of workspaces to try, in bytes: those of the choice; without one no limit, and
// the least workspaces if these are other algorithms.
std::vector<std::int64_t> LimitsOf(const TaskGraph& graph,
                                   const std::optional<AlgorithmChoice>& choice) {
  constexpr std::int64_t kAny = layerwise::kAnyWorkspace;
  constexpr std::int64_t kLeast = layerwise::kLeastWorkspace;
  if (choice == AlgorithmChoice::kFastest) return {kAny};
  if (choice == AlgorithmChoice::kLeastMemory) return {kLeast};
  if (AlgorithmsWithin(graph, kAny) == AlgorithmsWithin(graph, kLeast)) return {kAny};
  return {kAny, kLeast};
}

ChainOptions OptionsOf(const TaskGraph& graph, const ScheduleRequest& request,
                       std::int64_t most_workspace, bool recomputes) {
  const MachineDevice& device = request.machine.devices.front();
  const MachineLink& link = request.machine.links[device.link];
  ChainOptions options;
  options.memory_bytes =
      device.memory_bytes / request.placing.alignment * request.placing.alignment;
  options.link_bytes_per_second =
      std::min({link.out_bytes_per_second, link.in_bytes_per_second, kMostLinkBytesPerSecond});
  options.recomputation = recomputes;
  options.algorithms = AlgorithmsWithin(graph, most_workspace);
  return options;
}

// Refuses an operation of the chain that needs more than the memory by itself.
absl::Status CheckOperation(const TaskGraph& graph, const GraphChain& made, std::size_t begin,
                            std::size_t end, std::int64_t bytes) {
  if (begin == end || bytes <= made.chain.memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the tasks from ", requests::InQuotes(graph.tasks[begin].name), " to ",
                   requests::InQuotes(graph.tasks[end - 1].name), " alone need ",
                   text::ExactSize(bytes + made.resident_bytes), ", with ",
                   text::Size(made.resident_bytes), " of weights and the like; the memory has ",
                   text::ExactSize(made.chain.memory_bytes + made.resident_bytes)));
}

absl::Status CheckOperationsFit(const TaskGraph& graph, const GraphChain& made) {
  const Chain& chain = made.chain;
  for (std::size_t i = 0; i < made.parts.size(); ++i) {
    const GraphChain::Part& part = made.parts[i];
    // F_i and B_i read the output of the part before.
    const std::int64_t both = (chain.output.empty() ? chain.x : chain.output)[i] + chain.x[i + 1];
    absl::Status status = CheckOperation(graph, made, part.forward_begin, part.forward_end,
                                         both + chain.forward_extra[i]);
    if (!status.ok()) return status;
    status = CheckOperation(graph, made, part.backward_begin, part.backward_end,
                            both + chain.y[i] + chain.y[i + 1] + chain.backward_extra[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

struct TimedSchedule {
  Schedule schedule;
  double seconds = 0;
};

// Whether a chain can have the schedule of another one: they differ in the memory alone, of which
// it has a little more. Micro-batches differ in the inputs that wait for later ones.
bool CanTakeScheduleOf(const Chain& other, const Chain& chain) {
  const std::int64_t more = chain.memory_bytes - other.memory_bytes;
  if (more < 0 || more > other.memory_bytes / 100) return false;
  Chain smaller = chain;
  smaller.memory_bytes = other.memory_bytes;
  return smaller == other;
}

// Returns the chain of a micro-batch, with tasks of the whole graph.
absl::StatusOr<GraphChain> ChainOf(const chain::MicroBatches& micro_batches, std::size_t number,
                                   const ScheduleRequest& request, std::int64_t most_workspace,
                                   bool recomputes) {
  const TaskGraph graph = micro_batches.GraphOf(number);
  absl::StatusOr<GraphChain> made =
      ToChain(graph, OptionsOf(graph, request, most_workspace, recomputes));
  if (made.ok()) micro_batches.RenumberTasks(number, *made);
  return made;
}

// The chains of all micro-batches, with workspaces of one limit.
struct Chains {
  std::int64_t most_workspace = 0;
  std::vector<GraphChain> made = {};
  std::vector<bool> is_like_last = {};  // by chain: it takes the schedule of the one before it

  std::size_t searches() const {
    return static_cast<std::size_t>(std::count(is_like_last.begin(), is_like_last.end(), false));
  }
};

absl::StatusOr<Chains> MakeChains(const TaskGraph& graph, const chain::MicroBatches& micro_batches,
                                  const ScheduleRequest& request, std::int64_t most_workspace,
                                  bool recomputes) {
  Chains chains = {.most_workspace = most_workspace};
  for (std::size_t number = 0; number < micro_batches.count(); ++number) {
    absl::StatusOr<GraphChain> made =
        ChainOf(micro_batches, number, request, most_workspace, recomputes);
    if (!made.ok()) return made.status();
    absl::Status status = CheckOperationsFit(graph, *made);
    if (!status.ok()) return status;
    const std::vector<GraphChain>& before = chains.made;
    chains.is_like_last.push_back(!before.empty() &&
                                  CanTakeScheduleOf(before.back().chain, made->chain));
    chains.made.push_back(*std::move(made));
  }
  return chains;
}

absl::StatusOr<TimedSchedule> ScheduleAll(std::string_view policy, const TaskGraph& graph,
                                          const ScheduleRequest& request, Chains chains,
                                          const ChainPolicyOptions& options) {
  std::vector<ScheduledChain> scheduled;
  double seconds = 0;
  for (std::size_t number = 0; number < chains.made.size(); ++number) {
    GraphChain& made = chains.made[number];
    absl::StatusOr<ChainSchedule> schedule = chains.is_like_last[number]
                                                 ? scheduled.back().schedule
                                                 : MakeChainSchedule(policy, made.chain, options);
    if (!schedule.ok()) return schedule.status();
    seconds += schedule->seconds;
    scheduled.push_back({std::move(made), *std::move(schedule)});
  }
  absl::StatusOr<Schedule> schedule =
      chain_policies::ScheduleChains(graph, scheduled, request.placing.alignment);
  if (!schedule.ok()) return schedule.status();
  schedule->policy =
      absl::StrCat(std::string(policy), layerwise::TextOfWorkspaces(chains.most_workspace));
  return TimedSchedule{*std::move(schedule), seconds};
}

// Tries each limit of workspaces. All searches together take the time limit.
absl::StatusOr<Schedule> MakeOnChain(std::string_view policy, const TaskGraph& graph,
                                     const ScheduleRequest& request, bool recomputes) {
  const absl::StatusOr<GraphChainOptions> options = requests::OptionsOf<GraphChainOptions>(request);
  if (!options.ok()) return options.status();
  const TaskGraph rounded = InGranules(graph, request.placing.alignment);
  const chain::MicroBatches micro_batches(rounded);
  std::vector<absl::StatusOr<Chains>> tried;
  std::size_t searches = 0;
  for (const std::int64_t limit : LimitsOf(rounded, options->algorithms)) {
    tried.push_back(MakeChains(rounded, micro_batches, request, limit, recomputes));
    const bool fits = tried.back().ok();
    if (!fits && !absl::IsResourceExhausted(tried.back().status())) return tried.back().status();
    searches += fits ? tried.back()->searches() : 0;
  }
  ChainPolicyOptions own = options->chain;
  own.time_limit_seconds /= static_cast<double>(std::max<std::size_t>(searches, 1));
  absl::StatusOr<TimedSchedule> best = absl::InternalError("no algorithms were tried");
  for (absl::StatusOr<Chains>& chains : tried) {
    absl::StatusOr<TimedSchedule> made =
        chains.ok() ? ScheduleAll(policy, rounded, request, *std::move(chains), own)
                    : absl::StatusOr<TimedSchedule>(chains.status());
    if (!made.ok() && !absl::IsResourceExhausted(made.status())) return made.status();
    const bool is_better = !best.ok() || (made.ok() && made->seconds < best->seconds);
    if (is_better) best = std::move(made);
  }
  if (!best.ok()) return best.status();
  best->schedule.fingerprint = GraphFingerprint(graph);
  return std::move(best->schedule);
}

}  // namespace

absl::StatusOr<GraphChain> ChainSeenOf(const TaskGraph& graph, const ScheduleRequest& request,
                                       bool recomputes) {
  const absl::StatusOr<GraphChainOptions> options = requests::OptionsOf<GraphChainOptions>(request);
  if (!options.ok()) return options.status();
  const TaskGraph rounded = InGranules(graph, request.placing.alignment);
  const std::int64_t limit = LimitsOf(rounded, options->algorithms).front();
  const chain::MicroBatches micro_batches(rounded);
  return ChainOf(micro_batches, micro_batches.count() - 1, request, limit, recomputes);
}

absl::StatusOr<Schedule> MakeChained(std::string_view policy, const TaskGraph& graph,
                                     const ScheduleRequest& request) {
  return MakeOnChain(policy, graph, request, /*recomputes=*/false);
}

absl::StatusOr<Schedule> MakeRecomputing(std::string_view policy, const TaskGraph& graph,
                                         const ScheduleRequest& request) {
  return MakeOnChain(policy, graph, request, /*recomputes=*/true);
}

}  // namespace tidepool::search
