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
#include "policies/training/layerwise/layerwise_policies.h"
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
        {.name = "none",
         .description = "all data stays on the device",
         .options = kLayerwise,
         .make_pooled = layerwise::MakePooled,
         .make_round = layerwise::MakeStaying},
        {.name = "vdnn",
         .description = "each layer waits for the copies that it overlaps with",
         .options = kLayerwise,
         .make_pooled = layerwise::MakePooled},
        {.name = "vdnn++",
         .description = "no layer waits for copies",
         .options = kLayerwise,
         .make_pooled = layerwise::MakePooled},
        {.name = "base",
         .description = "the papers' baseline: each tensor has memory of its own, gradients take "
                        "chunks in turn",
         .options = kLayerwise,
         .make_fixed = layerwise::MakeBase},
        {.name = "modnn",
         .description =
             "moDNN's Algorithm 1: offloads data where room is needed, and prefetches it in time",
         .options = kModnn,
         .make_round = modnn::MakeModnn,
         .rounds_keep_addresses = true,
         .choose_sub_batch = modnn::ChooseModnnSubBatch},
        {.name = "best",
         .description = "the fastest schedule that a search finds; offloads and recomputes data",
         .options = kBest,
         .make_round = search::MakeBest},
    };
    for (const chain_policies::ChainPolicy& policy : chain_policies::ChainPolicies()) {
      if (policy.takes_copies) continue;
      all->push_back(
          {.name = policy.name,
           .description = policy.description,
           .options = kGraphChain,
           .make_round = policy.recomputes ? search::MakeRecomputing : search::MakeChained});
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

std::vector<std::string> NamesOfRoundPolicies() {
  std::vector<std::string> names;
  for (const OffloadPolicy& policy : AllPolicies()) {
    if (policy.MakesRounds()) names.emplace_back(policy.name);
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
                     absl::StrCat("one of ", absl::StrJoin(NamesOfRoundPolicies(), ", ")));
}

// The way to the schedule of a request.
enum class Way : std::uint8_t {
  kPool,          // make_pooled
  kOwnAddresses,  // make_fixed
  kRounds,        // make_round, and MakeIteration for rounds, devices and addresses
};

absl::StatusOr<Way> WayTo(const ScheduleRequest& request, const OffloadPolicy& policy,
                          bool is_divided) {
  const bool has_pool = policy.make_pooled != nullptr && !is_divided;
  const ScheduleMemory memory =
      request.memory.value_or(has_pool ? ScheduleMemory::kPool : ScheduleMemory::kFixed);
  if (memory == ScheduleMemory::kPool) {
    if (has_pool) return Way::kPool;
    return LacksMemory(
        policy, is_divided ? "a pool for rounds, several devices or updates on the host" : "a pool",
        "fixed or paged memory");
  }
  const bool has_addresses = memory == ScheduleMemory::kFixed && !is_divided;
  if (has_addresses && policy.make_fixed != nullptr) return Way::kOwnAddresses;
  if (policy.MakesRounds()) return Way::kRounds;
  return LacksPages(policy, is_divided      ? "rounds, several devices and updates on the host"
                            : has_addresses ? "fixed addresses"
                                            : "pages");
}

// Makes the schedule of a whole iteration on one device.
absl::StatusOr<MadeSchedule> MakeWhole(const OffloadPolicy& policy, Way way, const TaskGraph& graph,
                                       ScheduleRequest request) {
  request.machine.devices.resize(1);
  const MakeForGraph& make = way == Way::kPool ? policy.make_pooled : policy.make_fixed;
  absl::StatusOr<Schedule> schedule = make(policy.name, graph, request);
  if (!schedule.ok()) return schedule.status();
  const double lower_bound = LowerBoundSeconds({&graph, 1}, *schedule, request.machine);
  return MadeSchedule{.schedule = *std::move(schedule),
                      .graphs = {graph},
                      .machine = std::move(request.machine),
                      .placing = std::move(request.placing),
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
  ScheduleRequest noted = request;
  bool was_late = false;
  bool was_proved = false;
  if (auto* best = std::get_if<BestOptions>(&noted.options)) {
    best->was_late = &was_late;
    best->was_proved = is_divided ? nullptr : &was_proved;
  }
  if (auto* chain = std::get_if<GraphChainOptions>(&noted.options))
    chain->chain.was_late = &was_late;
  absl::StatusOr<MadeSchedule> made = make(noted);
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
                        .has_rounds = policy.MakesRounds()});
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
  const absl::StatusOr<Way> way = WayTo(request, **found, /*is_divided=*/false);
  if (!way.ok()) return way.status();
  if (*way == Way::kRounds) {
    return MakeAndTellEnd(request, /*is_divided=*/false, [&](const ScheduleRequest& noted) {
      return rounds::MakeIteration(**found, graph, noted);
    });
  }
  return MakeWhole(**found, *way, graph, request);
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
  const absl::StatusOr<Way> way = WayTo(request, **found, is_divided);
  if (!way.ok()) return way.status();
  if (*way == Way::kRounds) {
    return MakeAndTellEnd(request, is_divided, [&](const ScheduleRequest& noted) {
      return rounds::MakeIteration(**found, family, *batch, noted);
    });
  }
  const absl::StatusOr<TaskGraph> graph = GraphAt(family, *batch);
  if (!graph.ok()) return graph.status();
  return MakeWhole(**found, *way, *graph, request);
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
