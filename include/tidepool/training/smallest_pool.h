// SPDX-License-Identifier: Apache-2.0
// The order of allocations and the placement policy that serve a schedule with the smallest pool.
//
// No order and no placement is the best for all networks: "A better way to reduce memory
// consumption would be to initially simulate different orders and algorithms for allocation and
// choose the order/algorithm which consumes the least GPU memory" (Shriram et al., IPDPS 2019,
// section V-B).
#ifndef TIDEPOOL_TRAINING_SMALLEST_POOL_H_
#define TIDEPOOL_TRAINING_SMALLEST_POOL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tidepool/export.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/offload_policy.h"
#include "tidepool/training/schedule.h"

namespace tidepool {

// An order and a placement that were tried.
struct PoolTrial {
  AllocationOrder order = AllocationOrder::kPrefetchFirst;
  std::string placement;
  // The smallest pool that serves the requests of the schedule, as if each offload gave its memory
  // back at once: the height of PlanSchedule's plan, or the pool of the restart search of section
  // IV-B (MinimumPool), with at most 3 million steps and then a bisection. -1: the policy found no
  // schedule.
  std::int64_t pool_bytes = 0;
  bool fits = false;  // whether a simulated iteration fits the memory of the request

  friend bool operator==(const PoolTrial&, const PoolTrial&) = default;
};

struct SmallestPool {
  // Every order with every placement, by order. Empty for a policy that places its data itself.
  std::vector<PoolTrial> trials;
  std::size_t best = 0;  // index in trials
  MadeSchedule made;     // of the best trial, with its placement in `placing`
};

// Makes the schedule of a policy with each of `orders` and `placements`, in the place of those in
// the request. Of the schedules that fit, the one with the smallest pool is best, and the first of
// equals. Deterministic. Errors: InvalidArgument for no orders or placements;
// ResourceExhausted, of the smallest pool, when none fits; MakeSchedule's, Simulate's and
// MinimumPool's. Thread-safe. Takes the time of a MakeSchedule and a Simulate for each.
TIDEPOOL_EXPORT absl::StatusOr<SmallestPool> MakeSmallestPool(
    std::string_view policy, const TaskGraph& graph, const ScheduleRequest& request,
    absl::Span<const AllocationOrder> orders, absl::Span<const std::string> placements);

}  // namespace tidepool

#endif  // TIDEPOOL_TRAINING_SMALLEST_POOL_H_
