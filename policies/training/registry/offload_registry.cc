// SPDX-License-Identifier: Apache-2.0
// Makes a schedule by the name of a policy.
#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/text/nearest.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/layerwise/base_policy.h"
#include "policies/training/layerwise/layerwise_policy.h"
#include "policies/training/layerwise/staying.h"
#include "policies/training/modnn/modnn_policy.h"
#include "policies/training/requests/option_names.h"
#include "policies/training/requests/policy_functions.h"
#include "policies/training/requests/policy_options.h"
#include "policies/training/requests/request_check.h"
#include "policies/training/rounds/device_iteration.h"
#include "policies/training/search/best_policy.h"
#include "policies/training/search/chained_policy.h"
#include "tidepool/training/lower_bound.h"
#include "tidepool/training/offload_policy.h"

namespace tidepool {
namespace {

using requests::MakeForGraph;
using requests::OffloadPolicy;

constexpr auto kLayerwise = OffloadPolicy::Options::kLayerwise;
constexpr auto kGraphChain = OffloadPolicy::Options::kGraphChain;
constexpr auto kBest = OffloadPolicy::Options::kBest;
constexpr auto kModnn = OffloadPolicy::Options::kModnn;

// Returns the policies of this list, and every policy of chains but its own `best`.
const std::vector<OffloadPolicy>& AllPolicies() {
  static const auto* const policies = [] {
    auto* all = new std::vector<OffloadPolicy>{
        {"none", "all data stays on the device", kLayerwise, layerwise::MakePooled,
         layerwise::MakeStaying},
        {"vdnn", "each layer waits for the copies that it overlaps with", kLayerwise,
         layerwise::MakePooled},
        {"vdnn++", "no layer waits for copies", kLayerwise, layerwise::MakePooled},
        {"base",
         "the papers' manager: all data has memory of its own, gradients take chunks in turn",
         kLayerwise, nullptr, nullptr, layerwise::MakeBase},
        {"modnn", "moDNN's Algorithm 1: data leaves where room is needed, and comes back in time",
         kModnn, nullptr, nullptr, nullptr, modnn::MakeModnn, modnn::ChooseModnnSubBatch},
        {"best", "the fastest that a search finds: data is sent, or made again", kBest, nullptr,
         search::MakeBest},
    };
    for (const chain_policies::ChainPolicy& policy : chain_policies::ChainPolicies()) {
      if (policy.takes_copies) continue;
      all->push_back({policy.name, policy.description, kGraphChain, nullptr,
                      policy.recomputes ? search::MakeRecomputing : search::MakeChained});
    }
    return all;
  }();
  return *policies;
}

PolicyOptions DefaultsOf(const OffloadPolicy& policy) {
  if (policy.options == kGraphChain) return GraphChainOptions();
  if (policy.options == kBest) return BestOptions();
  if (policy.options == kModnn) return ModnnOptions();
  return LayerwiseOptions();
}

absl::StatusOr<const OffloadPolicy*> FindOffloadPolicy(std::string_view name) {
  for (const OffloadPolicy& policy : AllPolicies()) {
    if (name == policy.name) return &policy;
  }
  const std::vector<std::string> names = text::NearestFirst(name, OffloadPolicyNames());
  return absl::NotFoundError(absl::StrCat("no offload policy ", requests::InQuotes(name),
                                          ", expected one of ", absl::StrJoin(names, ", ")));
}

std::vector<std::string> NamesOfPagedPolicies() {
  std::vector<std::string> names;
  for (const OffloadPolicy& policy : AllPolicies()) {
    if (policy.ForRounds() != nullptr) names.emplace_back(policy.name);
  }
  return names;
}

std::vector<std::string> NamesOfChainPolicies() {
  std::vector<std::string> names;
  for (const OffloadPolicy& policy : AllPolicies()) {
    if (policy.options == kGraphChain) names.emplace_back(policy.name);
  }
  return names;
}

absl::Status LacksMemory(const OffloadPolicy& policy, std::string_view lacks,
                         std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("policy ", requests::InQuotes(policy.name),
                                                 " makes no schedules with ", std::string(lacks),
                                                 ", expected ", std::string(expected)));
}

absl::Status LacksPages(const OffloadPolicy& policy, std::string_view lacks) {
  return LacksMemory(policy, lacks,
                     absl::StrCat("one of ", absl::StrJoin(NamesOfPagedPolicies(), ", ")));
}

// Returns the policy's function for schedules of a pool or with addresses of its own; null for
// paged schedules, which get their rounds, devices and addresses later.
absl::StatusOr<MakeForGraph> MakerFor(const OffloadPolicy& policy, const ScheduleRequest& request,
                                      bool is_divided) {
  const bool has_pool = policy.make_pooled != nullptr && !is_divided;
  const ScheduleMemory memory =
      request.memory.value_or(has_pool ? ScheduleMemory::kPool : ScheduleMemory::kFixed);
  if (memory == ScheduleMemory::kPool) {
    if (has_pool) return policy.make_pooled;
    return LacksMemory(
        policy, is_divided ? "a pool for rounds, several devices or updates on the host" : "a pool",
        "fixed or paged memory");
  }
  const bool has_addresses = memory == ScheduleMemory::kFixed && !is_divided;
  if (has_addresses && policy.make_fixed != nullptr) return policy.make_fixed;
  if (policy.ForRounds() != nullptr) return nullptr;
  return LacksPages(policy, is_divided      ? "rounds, several devices and updates on the host"
                            : has_addresses ? "fixed addresses"
                                            : "pages");
}

absl::StatusOr<MadeSchedule> MakeWhole(const OffloadPolicy& policy, MakeForGraph make,
                                       const TaskGraph& graph, const ScheduleRequest& request) {
  ScheduleRequest own = request;
  own.machine.devices.resize(1);
  absl::StatusOr<Schedule> schedule = make(policy.name, graph, own);
  if (!schedule.ok()) return schedule.status();
  const double lower_bound = LowerBoundSeconds({&graph, 1}, *schedule, own.machine);
  return MadeSchedule{.schedule = *std::move(schedule),
                      .graphs = {graph},
                      .machine = std::move(own.machine),
                      .placing = std::move(own.placing),
                      .batch = graph.batch,
                      .sub_batch = graph.batch,
                      .ideal_seconds = TotalsOf(graph).least_seconds,
                      .lower_bound_seconds = lower_bound};
}

// Makes a schedule and tells the end of its search, and tells a stop before the first schedule from
// a memory that is too small. A proof for one round says nothing of an iteration that is divided.
template <typename Make>
absl::StatusOr<MadeSchedule> MakeAndTellEnd(const ScheduleRequest& request, bool is_divided,
                                            Make make) {
  ScheduleRequest own = request;
  bool was_late = false;
  bool was_proved = false;
  if (auto* best = std::get_if<BestOptions>(&own.options)) {
    best->was_late = &was_late;
    best->was_proved = is_divided ? nullptr : &was_proved;
  }
  if (auto* chain = std::get_if<GraphChainOptions>(&own.options)) chain->chain.was_late = &was_late;
  absl::StatusOr<MadeSchedule> made = make(own);
  const bool is_stopped = requests::StopOf(request.options).stop_requested();
  if (is_stopped && absl::IsResourceExhausted(made.status())) {
    return absl::CancelledError("the search was stopped before it had a schedule");
  }
  if (made.ok()) {
    made->proved |= was_proved;
    made->ended_by = made->proved ? EndedBy::kProof
                     : is_stopped ? EndedBy::kInterrupt
                     : was_late   ? EndedBy::kClock
                                  : EndedBy::kWork;
  }
  return made;
}

}  // namespace

std::vector<OffloadPolicyInfo> OffloadPolicies() {
  std::vector<OffloadPolicyInfo> policies;
  policies.reserve(AllPolicies().size());
  for (const OffloadPolicy& policy : AllPolicies()) {
    policies.push_back({.name = std::string(policy.name),
                        .description = std::string(policy.description),
                        .options = DefaultsOf(policy),
                        .has_rounds = policy.ForRounds() != nullptr});
  }
  return policies;
}

std::vector<std::string> OffloadPolicyNames() {
  std::vector<std::string> names;
  names.reserve(AllPolicies().size());
  for (const OffloadPolicy& policy : AllPolicies()) names.emplace_back(policy.name);
  return names;
}

absl::StatusOr<MadeSchedule> MakeSchedule(std::string_view policy, const TaskGraph& graph,
                                          const ScheduleRequest& request) {
  const absl::StatusOr<const OffloadPolicy*> found = FindOffloadPolicy(policy);
  if (!found.ok()) return found.status();
  absl::Status status = requests::CheckMachine(request);
  if (status.ok()) status = requests::CheckRequestOfGraph(graph, request);
  if (!status.ok()) return status;
  const absl::StatusOr<MakeForGraph> make = MakerFor(**found, request, /*is_divided=*/false);
  if (!make.ok()) return make.status();
  if (*make == nullptr) {
    return MakeAndTellEnd(request, /*is_divided=*/false, [&](const ScheduleRequest& own) {
      return rounds::MakeIteration(**found, graph, own);
    });
  }
  return MakeWhole(**found, *make, graph, request);
}

absl::StatusOr<MadeSchedule> MakeSchedule(std::string_view policy, const GraphFamily& family,
                                          const ScheduleRequest& request) {
  const absl::StatusOr<const OffloadPolicy*> found = FindOffloadPolicy(policy);
  if (!found.ok()) return found.status();
  absl::Status status = requests::CheckMachine(request);
  if (!status.ok()) return status;
  const absl::StatusOr<std::int64_t> batch = requests::BatchOfDevice(request);
  if (!batch.ok()) return batch.status();
  const bool is_whole = request.sub_batch == kWholeBatch || request.sub_batch == *batch;
  const bool is_divided = !is_whole || request.devices > 1 || request.host_updates;
  const absl::StatusOr<MakeForGraph> make = MakerFor(**found, request, is_divided);
  if (!make.ok()) return make.status();
  if (*make == nullptr) {
    return MakeAndTellEnd(request, is_divided, [&](const ScheduleRequest& own) {
      return rounds::MakeIteration(**found, family, *batch, own);
    });
  }
  const absl::StatusOr<TaskGraph> graph = GraphAt(family, *batch);
  if (!graph.ok()) return graph.status();
  return MakeWhole(**found, *make, *graph, request);
}

absl::StatusOr<Timeline> Simulate(const MadeSchedule& made) {
  if (made.schedule.memory == ScheduleMemory::kPool) {
    return Simulate(made.graphs.front(), made.schedule, made.machine, made.placing);
  }
  return Simulate(made.graphs, made.schedule, made.machine);
}

absl::StatusOr<GraphChain> ChainOfGraph(std::string_view policy, const TaskGraph& graph,
                                        const ScheduleRequest& request) {
  const absl::StatusOr<const OffloadPolicy*> found = FindOffloadPolicy(policy);
  if (!found.ok()) return found.status();
  if ((*found)->options != kGraphChain) {
    return absl::InvalidArgumentError(absl::StrCat("policy ", requests::InQuotes(policy),
                                                   " sees no chain, expected one of ",
                                                   absl::StrJoin(NamesOfChainPolicies(), ", ")));
  }
  absl::Status status = requests::CheckMachine(request);
  if (status.ok()) status = requests::CheckRequestOfGraph(graph, request);
  if (!status.ok()) return status;
  const bool recomputes =
      std::ranges::any_of(chain_policies::ChainPolicies(),
                          [&](const auto& one) { return one.name == policy && one.recomputes; });
  return search::ChainSeenOf(graph, request, recomputes);
}

}  // namespace tidepool
