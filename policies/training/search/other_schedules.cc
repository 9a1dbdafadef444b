// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/other_schedules.h"

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/training/chain/micro_batches.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/layerwise/layerwise_policies.h"
#include "policies/training/requests/policy_options.h"
#include "policies/training/search/chained_policy.h"
#include "policies/training/search/paged_from_pool.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool::search {
namespace {

using Maker = absl::StatusOr<Schedule> (*)(std::string_view policy, const TaskGraph& graph,
                                           const ScheduleRequest& request);

constexpr std::int64_t kUnlimitedMemory = std::int64_t{1} << 60;

struct Other {
  std::string_view policy;
  Maker make;
  PolicyOptions options = {};
  bool is_chain = false;
};

// Drops the addresses that `base` gives: `best` plans its own.
absl::StatusOr<Schedule> BaseInPages(std::string_view policy, const TaskGraph& graph,
                                     const ScheduleRequest& request) {
  absl::StatusOr<Schedule> schedule = layerwise::MakeBase(policy, graph, request);
  if (!schedule.ok()) return schedule;
  return schedule::InPages(*std::move(schedule));
}

absl::StatusOr<Schedule> PoolInPages(std::string_view policy, const TaskGraph& graph,
                                     const ScheduleRequest& request) {
  const absl::StatusOr<Schedule> schedule = layerwise::MakePooled(policy, graph, request);
  if (!schedule.ok()) return schedule.status();
  return PagedFromPool(graph, *schedule, request.machine.devices.front().memory_bytes,
                       request.placing.alignment);
}

// Returns the policies of chains that run operations again, or the ones that do not.
std::vector<Other> OthersOnChains(bool recompute) {
  std::vector<Other> others;
  for (const chain_policies::ChainPolicy& policy : chain_policies::ChainPolicies()) {
    if (recompute ? !policy.recomputes : !policy.only_sends()) continue;
    others.push_back({policy.name, recompute ? MakeRecomputing : MakeChained, {}, true});
  }
  return others;
}

// Returns whether `take` wants more schedules. Policies of chains get these options.
bool MakeAll(absl::Span<const Other> others, const TaskGraph& graph, const ScheduleRequest& request,
             ChainPolicyOptions chain, const TakeSchedule& take) {
  ScheduleRequest own = request;
  chain.stop = requests::StopOf(request.options);
  own.machine.devices.resize(1);
  for (const Other& other : others) {
    own.options = other.options;
    if (other.is_chain) own.options = GraphChainOptions{.chain = chain};
    const absl::StatusOr<Schedule> schedule = other.make(other.policy, graph, own);
    if (schedule.ok() && !take(*schedule)) return false;
  }
  return true;
}

// Returns whether the chain of a graph, or of its last micro-batch, is short enough for programs of
// cubic time and more.
bool HasShortChain(const TaskGraph& graph) {
  const chain::MicroBatches micro_batches(graph);
  const absl::StatusOr<GraphChain> chain =
      ToChain(micro_batches.GraphOf(micro_batches.count() - 1),
              {.memory_bytes = kUnlimitedMemory, .recomputation = true});
  return chain.ok() && chain->parts.size() <= kMostOperationsRunningAgain;
}

}  // namespace

void ForEachTransferSchedule(const TaskGraph& graph, const ScheduleRequest& request,
                             const TakeSchedule& take) {
  const Other others[] = {
      {"none", layerwise::MakeStaying},
      {"base", BaseInPages},
      {"base", BaseInPages, LayerwiseOptions{.algorithms = AlgorithmChoice::kLeastMemory}},
      {"vdnn++", PoolInPages},
      {"vdnn++", PoolInPages, LayerwiseOptions{.set = OffloadSet::kAll}}};
  if (!MakeAll(others, graph, request, {}, take)) return;
  MakeAll(OthersOnChains(/*recompute=*/false), graph, request, {}, take);
}

void ForEachRecomputeSchedule(const TaskGraph& graph, const ScheduleRequest& request,
                              double most_seconds, const TakeSchedule& take) {
  if (!HasShortChain(graph)) return;
  MakeAll(OthersOnChains(/*recompute=*/true), graph, request, {.time_limit_seconds = most_seconds},
          take);
}

}  // namespace tidepool::search
