// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/other_schedules.h"

#include <cstdint>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "lib/training/chain/micro_batches.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "policies/training/requests/policy_options.h"
#include "policies/training/search/paged_from_pool.h"
#include "tidepool/training/chain.h"
#include "tidepool/training/chain_policy.h"

namespace tidepool::search {
namespace {

using requests::OffloadPolicy;

constexpr std::int64_t kUnlimitedMemory = std::int64_t{1} << 60;

// Returns the schedule of a policy without addresses, unless the policy gives them to rounds too:
// `best` plans its own.
absl::StatusOr<Schedule> MakeOther(const OffloadPolicy& policy, const TaskGraph& graph,
                                   const ScheduleRequest& request) {
  if (policy.MakesRounds()) return policy.make_round(policy.name, graph, request);
  const bool is_pooled = policy.make_fixed == nullptr;
  absl::StatusOr<Schedule> schedule =
      (is_pooled ? policy.make_pooled : policy.make_fixed)(policy.name, graph, request);
  if (!schedule.ok()) return schedule;
  if (!is_pooled) return schedule::InPages(*std::move(schedule));
  return PagedFromPool(graph, *schedule, request.machine.devices.front().memory_bytes,
                       request.placing.alignment);
}

// Asks the policies for which `is_asked` returns true, until `take` returns false.
template <typename IsAsked>
void MakeEach(requests::PolicyTable policies, const TaskGraph& graph,
              const ScheduleRequest& request, const ChainPolicyOptions& of_chains,
              const IsAsked& is_asked, const TakeSchedule& take) {
  ScheduleRequest own = request;
  own.machine.devices.resize(1);
  for (const OffloadPolicy& policy : policies) {
    if (!is_asked(policy)) continue;
    for (const PolicyOptions& options : policy.tried_by_best) {
      own.options = options;
      if (auto* chain = std::get_if<GraphChainOptions>(&own.options)) chain->chain = of_chains;
      const absl::StatusOr<Schedule> schedule = MakeOther(policy, graph, own);
      if (schedule.ok() && !take(*schedule)) return;
    }
  }
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

void ForEachQuickSchedule(requests::PolicyTable policies, const TaskGraph& graph,
                          const ScheduleRequest& request, const TakeSchedule& take) {
  MakeEach(
      policies, graph, request, {.stop = requests::StopOf(request.options)},
      [](const OffloadPolicy& policy) {
        return !policy.recomputes && !policy.rounds_keep_addresses;
      },
      take);
}

void ForEachAddressedSchedule(requests::PolicyTable policies, const TaskGraph& graph,
                              const ScheduleRequest& request, const TakeSchedule& take) {
  ScheduleRequest fixed = request;
  fixed.memory = ScheduleMemory::kFixed;
  MakeEach(
      policies, graph, fixed, {},
      [](const OffloadPolicy& policy) { return policy.rounds_keep_addresses; }, take);
}

void ForEachRecomputeSchedule(requests::PolicyTable policies, const TaskGraph& graph,
                              const ScheduleRequest& request, double most_seconds,
                              const TakeSchedule& take) {
  if (!HasShortChain(graph)) return;
  MakeEach(
      policies, graph, request,
      {.time_limit_seconds = most_seconds, .stop = requests::StopOf(request.options)},
      [](const OffloadPolicy& policy) { return policy.recomputes; }, take);
}

}  // namespace tidepool::search
