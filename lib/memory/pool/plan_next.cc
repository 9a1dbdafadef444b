// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/pool/plan_next.h"

#include <algorithm>
#include <cstddef>

#include "tidepool/trace/plan.h"

namespace tidepool::pool {
namespace {

// Returns the obstacles of the requests, as buffers with fixed offsets.
std::vector<PlanBuffer> ObstaclesOf(const NextOrder& order, std::int64_t end) {
  std::vector<PlanBuffer> obstacles;
  const auto add = [&](const Range& range, std::int64_t upper) {
    obstacles.push_back(
        {.lower = 0, .upper = upper, .bytes = range.bytes(), .offset = range.begin});
  };
  obstacles.reserve(order.fixed.size() + order.left.size());
  for (const Range& range : order.fixed) add(range, end);
  for (const LeftRange& left : order.left) {
    if (left.events > 0) add(left.range, std::min(left.events, end));
  }
  return obstacles;
}

bool AreApart(const PlanBuffer& a, const PlanBuffer& b) {
  return a.upper <= b.lower || b.upper <= a.lower || a.offset + a.bytes <= b.offset ||
         b.offset + b.bytes <= a.offset;
}

// Gives the requests that outlive the iteration the offsets of the later plan, where nothing is in
// the way. Returns whether all got theirs.
bool FixEnds(const PlacementPlan& later, const std::vector<PlanBuffer>& obstacles, std::int64_t end,
             std::vector<PlanBuffer>& requests) {
  bool has_all = true;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].upper < end) continue;
    PlanBuffer fixed = requests[i];
    fixed.offset = later.requests()[i].offset;
    const bool is_free =
        std::ranges::all_of(obstacles, [&](const auto& each) { return AreApart(fixed, each); });
    if (is_free) requests[i] = fixed;
    has_all = has_all && is_free;
  }
  return has_all;
}

}  // namespace

absl::StatusOr<NextPlan> PlanNext(const NextOrder& order) {
  absl::StatusOr<PlanProblem> problem = plan::ProblemOf(*order.iteration, order.alignment);
  if (!problem.ok()) return problem.status();
  const auto end = static_cast<std::int64_t>(order.iteration->events.size());
  const std::vector<PlanBuffer> obstacles = ObstaclesOf(order, end);
  std::vector<PlanBuffer>& buffers = problem->buffers;
  const std::size_t requests = buffers.size();
  const bool ends_as_later =
      order.later != nullptr && FixEnds(*order.later, obstacles, end, buffers);
  buffers.insert(buffers.end(), obstacles.begin(), obstacles.end());
  const absl::StatusOr<Plan> plan = MakePlan(*problem, {.time_limit_seconds = 0});
  if (!plan.ok()) return plan.status();
  return NextPlan{ToPlacementPlan(*problem, plan->offsets, requests), ends_as_later};
}

}  // namespace tidepool::pool
