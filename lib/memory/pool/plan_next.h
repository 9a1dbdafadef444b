// SPDX-License-Identifier: Apache-2.0
// PlanNext: plans the next iteration alone, from where memory lies at its beginning.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_PLAN_NEXT_H_
#define TIDEPOOL_LIB_MEMORY_POOL_PLAN_NEXT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/memory/plan/memory_log.h"
#include "lib/memory/pool/range.h"
#include "tidepool/planned_placement.h"

namespace tidepool::pool {

// Memory that the iteration before left live. It is free after `events` events of this iteration.
struct LeftRange {
  Range range;
  std::int64_t events = 0;
};

struct NextOrder {
  const plan::MemoryLog* iteration = nullptr;  // as the last iteration was
  std::int64_t alignment = 1;
  std::vector<Range> fixed;  // used before, during and after the iteration
  std::vector<LeftRange> left;
  // A plan of such iterations: memory that outlives this one gets the offset that it has there, if
  // nothing is in the way. Null: any offset.
  const PlacementPlan* later = nullptr;
};

struct NextPlan {
  std::shared_ptr<const PlacementPlan> plan;
  bool ends_as_later = false;  // whether all memory that outlives the iteration lies as in `later`
};

// A plan for iterations that repeat expects the memory that each leaves where the plan puts it. The
// first iteration with the plan finds it elsewhere, so it gets this plan. Only the first plan is
// made, without a search. Errors are those of ToPlanProblem and MakePlan.
absl::StatusOr<NextPlan> PlanNext(const NextOrder& order);

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_PLAN_NEXT_H_
