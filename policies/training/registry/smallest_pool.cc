// SPDX-License-Identifier: Apache-2.0
// Tries orders of allocations and placement policies, and keeps the smallest pool.
#include "tidepool/training/smallest_pool.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "policies/training/requests/policy_options.h"
#include "tidepool/placement.h"
#include "tidepool/trace/sizing.h"

namespace tidepool {
namespace {

// Beyond this number of simulated requests the restart search gives way to a bisection.
constexpr std::int64_t kMostRestartSteps = 3'000'000;

// Returns the smallest pool of a schedule (PoolTrial::pool_bytes).
absl::StatusOr<std::int64_t> PoolForSchedule(const TaskGraph& graph, const Schedule& schedule,
                                             std::string_view placement, std::int64_t alignment) {
  const absl::StatusOr<PlacementTraits> traits = PlacementTraitsOf(placement);
  if (!traits.ok()) return traits.status();
  if (traits->needs_plan) {
    const absl::StatusOr<std::shared_ptr<const PlacementPlan>> plan =
        PlanSchedule(graph, schedule, alignment, std::numeric_limits<std::int64_t>::max());
    if (!plan.ok()) return plan.status();
    return (*plan)->height_bytes();
  }
  const absl::StatusOr<Trace> trace = ScheduleTrace(graph, schedule, Leaving::kAtOnce);
  if (!trace.ok()) return trace.status();
  const absl::StatusOr<std::unique_ptr<PlacementPolicy>> policy = MakePlacementPolicy(placement);
  if (!policy.ok()) return policy.status();
  const absl::StatusOr<MinimumPoolResult> pool = MinimumPool(
      *trace, **policy,
      {.alignment = alignment, .most_steps = 0, .most_restart_steps = kMostRestartSteps});
  if (!pool.ok()) return pool.status();
  return pool->pool_bytes;
}

class PoolSearch {
 public:
  PoolSearch(std::string_view policy, const TaskGraph& graph, const ScheduleRequest& request)
      : policy_(policy), graph_(graph), request_(request) {}

  // Tries one more order and placement, unless the policy places its data itself.
  absl::Status Try(AllocationOrder order, const std::string& placement) {
    absl::StatusOr<MadeSchedule> made = Make(order, placement);
    PoolTrial trial = {order, placement, -1, false};
    if (!made.ok()) {
      if (!absl::IsResourceExhausted(made.status())) return made.status();
      return Refuse(std::move(trial), made.status());
    }
    if (made->schedule.memory != ScheduleMemory::kPool) {
      found_.made = *std::move(made);
      places_itself_ = true;
      return absl::OkStatus();
    }
    const absl::StatusOr<std::int64_t> bytes =
        PoolForSchedule(graph_, made->schedule, placement, made->placing.alignment);
    if (!bytes.ok()) return bytes.status();
    trial.pool_bytes = *bytes;
    absl::Status status = Simulate(*made).status();
    if (absl::IsResourceExhausted(status)) return Refuse(std::move(trial), status);
    if (!status.ok()) return status;
    trial.fits = true;
    return Accept(std::move(trial), *std::move(made));
  }

  bool places_itself() const { return places_itself_; }

  absl::StatusOr<SmallestPool> Found() && {
    if (places_itself_ || best_bytes_.has_value()) return std::move(found_);
    return refusal_;
  }

 private:
  absl::StatusOr<MadeSchedule> Make(AllocationOrder order, const std::string& placement) const {
    absl::StatusOr<LayerwiseOptions> options = requests::OptionsOf<LayerwiseOptions>(request_);
    if (!options.ok()) return options.status();
    options->order = order;
    ScheduleRequest request = request_;
    request.options = *std::move(options);
    request.placing.placement = placement;
    request.placing.plan = nullptr;
    return MakeSchedule(policy_, graph_, request);
  }

  absl::Status Accept(PoolTrial trial, MadeSchedule made) {
    if (!best_bytes_.has_value() || trial.pool_bytes < *best_bytes_) {
      best_bytes_ = trial.pool_bytes;
      found_.best = found_.trials.size();
      found_.made = std::move(made);
    }
    found_.trials.push_back(std::move(trial));
    return absl::OkStatus();
  }

  // Keeps the error of the smallest pool; a policy without a schedule has none.
  absl::Status Refuse(PoolTrial trial, const absl::Status& why) {
    const std::int64_t bytes =
        trial.pool_bytes < 0 ? std::numeric_limits<std::int64_t>::max() : trial.pool_bytes;
    if (refusal_.ok() || bytes < refused_bytes_) {
      refusal_ = why;
      refused_bytes_ = bytes;
    }
    found_.trials.push_back(std::move(trial));
    return absl::OkStatus();
  }

  const std::string_view policy_;
  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  SmallestPool found_;
  bool places_itself_ = false;
  std::optional<std::int64_t> best_bytes_;
  absl::Status refusal_;
  std::int64_t refused_bytes_ = 0;
};

}  // namespace

absl::StatusOr<SmallestPool> MakeSmallestPool(std::string_view policy, const TaskGraph& graph,
                                              const ScheduleRequest& request,
                                              absl::Span<const AllocationOrder> orders,
                                              absl::Span<const std::string> placements) {
  if (orders.empty() || placements.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(orders.size(), " orders and ", placements.size(),
                                                   " placements, expected one of each or more"));
  }
  PoolSearch search(policy, graph, request);
  for (const AllocationOrder order : orders) {
    for (const std::string& placement : placements) {
      if (absl::Status status = search.Try(order, placement); !status.ok()) return status;
      if (search.places_itself()) return std::move(search).Found();
    }
  }
  return std::move(search).Found();
}

}  // namespace tidepool
