// SPDX-License-Identifier: Apache-2.0
#include "trace_replay/offload/pools_tried.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tidepool/placement.h"
#include "trace_replay/text.h"

namespace tidepool::tool {
namespace {

std::vector<std::string> PlacementsOf(const OffloadCommandOptions& options) {
  const std::string& placement = options.choice.placing.placement;
  return placement == kTriesAll ? PlacementPolicyNames() : std::vector<std::string>{placement};
}

}  // namespace

bool TriesPools(const OffloadCommandOptions& options) {
  return options.order == kTriesAll || options.choice.placing.placement == kTriesAll;
}

absl::StatusOr<std::vector<AllocationOrder>> OrdersOf(const OffloadCommandOptions& options) {
  if (options.order == kTriesAll) {
    return std::vector<AllocationOrder>{AllocationOrder::kPrefetchFirst,
                                        AllocationOrder::kDerivativeFirst};
  }
  const absl::StatusOr<AllocationOrder> order = AllocationOrderFromName(options.order);
  if (order.ok()) return std::vector<AllocationOrder>{*order};
  return absl::InvalidArgumentError(absl::StrCat(order.status().message(), ", ", kTriesAll));
}

absl::StatusOr<ScheduledGraph> TryPools(const OffloadCommandOptions& options, TaskGraph graph,
                                        PolicyChoice choice) {
  if (choice.memory_kind.value_or(ScheduleMemory::kPool) != ScheduleMemory::kPool) {
    return absl::InvalidArgumentError(
        absl::StrCat("--memory-kind ", std::string(ScheduleMemoryName(*choice.memory_kind)),
                     ": a schedule without a pool, but --order best and --placement best look for "
                     "the smallest pool: remove --memory-kind, or give an order and a placement"));
  }
  const absl::StatusOr<std::vector<AllocationOrder>> orders = OrdersOf(options);
  if (!orders.ok()) return orders.status();
  absl::StatusOr<SmallestPool> found = MakeSmallestPool(
      options.policy, graph, RequestOf(options.policy, choice), *orders, PlacementsOf(options));
  if (!found.ok()) return Answered(found.status(), std::move(graph), std::move(choice));
  if (!found->trials.empty()) choice.layerwise.order = found->trials[found->best].order;
  return ScheduledGraph{.choice = std::move(choice),
                        .made = std::move(found->made),
                        .trials = std::move(found->trials),
                        .best_trial = found->best};
}

nlohmann::ordered_json TrialsJson(const std::vector<PoolTrial>& trials) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const PoolTrial& trial : trials) {
    json.push_back({{"order", AllocationOrderName(trial.order)},
                    {"placement", trial.placement},
                    {"pool_bytes", nullptr},
                    {"fits", trial.fits}});
    if (trial.pool_bytes >= 0) json.back()["pool_bytes"] = trial.pool_bytes;
  }
  return json;
}

std::string TrialsText(const ScheduledGraph& scheduled) {
  std::vector<std::vector<std::string>> rows = {{"pools tried", "order", "smallest pool", ""}};
  for (std::size_t i = 0; i < scheduled.trials.size(); ++i) {
    const PoolTrial& trial = scheduled.trials[i];
    rows.push_back({"  " + trial.placement, std::string(AllocationOrderName(trial.order)),
                    trial.pool_bytes < 0 ? "-" : SizeText(trial.pool_bytes),
                    !trial.fits                 ? "does not fit"
                    : i == scheduled.best_trial ? "taken"
                                                : ""});
  }
  return TableText(rows);
}

}  // namespace tidepool::tool
