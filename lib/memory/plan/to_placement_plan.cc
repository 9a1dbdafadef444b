// SPDX-License-Identifier: Apache-2.0
// Converts plans to the form that a pool follows: a walk through time finds the block below each
// request.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "absl/container/btree_set.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

// Returns the indices of all buffers sorted by one of their times, and in their own order among
// equals.
std::vector<std::uint32_t> OrderBy(std::int64_t PlanBuffer::*time, const PlanProblem& problem) {
  std::vector<std::uint32_t> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return problem.buffers[i].*time; });
  return order;
}

}  // namespace

std::shared_ptr<const PlacementPlan> ToPlacementPlan(const PlanProblem& problem,
                                                     const std::vector<std::int64_t>& offsets,
                                                     std::size_t requests) {
  std::vector<PlannedRequest> planned(requests);
  const std::vector<std::uint32_t> ends = OrderBy(&PlanBuffer::upper, problem);
  absl::btree_set<std::int64_t> live;  // offsets
  auto end = ends.begin();
  for (const std::uint32_t i : OrderBy(&PlanBuffer::lower, problem)) {
    for (; problem.buffers[*end].upper <= problem.buffers[i].lower; ++end)
      live.erase(offsets[*end]);
    const auto above = live.insert(offsets[i]).first;
    if (i >= requests) continue;
    planned[i] = {.bytes = problem.buffers[i].bytes, .offset = offsets[i]};
    planned[i].clue.used_below = above == live.begin() ? Clue::kFirst : *std::prev(above);
  }
  return std::make_shared<const PlacementPlan>(std::move(planned));
}

}  // namespace tidepool
