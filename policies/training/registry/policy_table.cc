// SPDX-License-Identifier: Apache-2.0
// Lists the offload policies. A new policy is a row here.
#include "policies/training/registry/policy_table.h"

#include <string_view>
#include <vector>

#include "policies/training/chain/chain_policies.h"
#include "policies/training/layerwise/layerwise_policies.h"
#include "policies/training/modnn/modnn_policy.h"
#include "policies/training/search/best_policy.h"
#include "policies/training/search/chained_policy.h"

namespace tidepool::registry {
namespace {

using requests::OffloadPolicy;

// `best` searches the table that it is a row of.
absl::StatusOr<Schedule> MakeBest(std::string_view /*policy*/, const TaskGraph& graph,
                                  const ScheduleRequest& request) {
  return search::MakeBest(AllPolicies(), graph, request);
}

// `best` drops data of a pool late (PagedFromPool). With that, vdnn is the same as vdnn++.
std::vector<OffloadPolicy> PoliciesOfGraphs() {
  return {
      {.name = "none",
       .description = "all data stays on the device",
       .options = LayerwiseOptions(),
       .make_pooled = layerwise::MakePooled,
       .make_round = layerwise::MakeStaying,
       .sends = false,
       .tried_by_best = {LayerwiseOptions()}},
      {.name = "base",
       .description = "the papers' baseline: each tensor has memory of its own, gradients take "
                      "chunks in turn",
       .options = LayerwiseOptions(),
       .make_fixed = layerwise::MakeBase,
       .sends = false,
       .tried_by_best = {LayerwiseOptions(),
                         LayerwiseOptions{.algorithms = AlgorithmChoice::kLeastMemory}}},
      {.name = "vdnn",
       .description = "each layer waits for the copies that it overlaps with",
       .options = LayerwiseOptions(),
       .make_pooled = layerwise::MakePooled},
      {.name = "vdnn++",
       .description = "no layer waits for copies",
       .options = LayerwiseOptions(),
       .make_pooled = layerwise::MakePooled,
       .tried_by_best = {LayerwiseOptions(), LayerwiseOptions{.set = OffloadSet::kAll}}},
      {.name = "modnn",
       .description =
           "moDNN's Algorithm 1: offloads data where room is needed, and prefetches it in time",
       .options = ModnnOptions(),
       .make_round = modnn::MakeModnn,
       .choose_sub_batch = modnn::ChooseModnnSubBatch,
       .rounds_keep_addresses = true,
       .tried_by_best = {ModnnOptions()}},
      {.name = search::kBestName,
       .description = "the fastest schedule that a search finds; offloads and recomputes data",
       .options = BestOptions(),
       .make_round = MakeBest,
       .recomputes = true},
  };
}

OffloadPolicy RowOf(const chain_policies::ChainPolicy& policy) {
  return {.name = policy.name,
          .description = policy.description,
          .options = GraphChainOptions(),
          .make_round = policy.recomputes ? search::MakeRecomputing : search::MakeChained,
          .sends = policy.sends,
          .recomputes = policy.recomputes,
          .tried_by_best = {GraphChainOptions()}};
}

}  // namespace

// The `best` of chains is left out: that of graphs has its name.
requests::PolicyTable AllPolicies() {
  static const auto* const policies = [] {
    auto* all = new std::vector<OffloadPolicy>(PoliciesOfGraphs());
    for (const chain_policies::ChainPolicy& policy : chain_policies::ChainPolicies()) {
      if (!policy.takes_copies) all->push_back(RowOf(policy));
    }
    return all;
  }();
  return *policies;
}

}  // namespace tidepool::registry
