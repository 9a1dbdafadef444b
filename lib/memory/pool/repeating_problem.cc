// SPDX-License-Identifier: Apache-2.0
// A planner wants lifetimes on a line. So a buffer across the cut is either widened to the whole
// line, which wastes its bytes for the rest of the time, or divided, which fixes its offset.
#include "lib/memory/pool/repeating_problem.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace tidepool::pool {
namespace {

// More buffers across the cut are not divided: their offsets are found one by one.
constexpr std::size_t kMostDivided = 1024;

// Finds the lowest free range of `bytes`, and takes it. `used` is in the order of offsets.
std::int64_t TakeLowest(std::vector<Range>& used, std::int64_t bytes) {
  std::int64_t offset = 0;
  auto above = used.begin();
  for (; above != used.end() && above->begin - offset < bytes; ++above) {
    offset = std::max(offset, above->end);
  }
  used.insert(above, {offset, offset + bytes});
  return offset;
}

}  // namespace

RepeatingProblem::RepeatingProblem(PlanProblem iteration, std::int64_t end,
                                   const std::vector<CarriedFree>& carried_frees, bool may_unroll)
    : problem_(std::move(iteration)) {
  const bool outlives = std::ranges::any_of(carried_frees, [&](const CarriedFree& carried) {
    return carried.request < problem_.buffers.size() &&
           carried.events > problem_.buffers[carried.request].lower;
  });
  if (outlives && may_unroll) iterations_ = 2;
  end_ = static_cast<std::int64_t>(iterations_) * end;
  SetEnds(end, carried_frees);
  if (iterations_ == 2) Unroll(end);
  Cut();
}

// A buffer that the next iteration does not free stays.
void RepeatingProblem::SetEnds(std::int64_t end, const std::vector<CarriedFree>& carried_frees) {
  for (PlanBuffer& buffer : problem_.buffers) {
    if (buffer.upper >= end) buffer.upper = buffer.lower + end_;
  }
  for (const auto& [request, events, bytes] : carried_frees) {
    if (request >= problem_.buffers.size()) continue;
    PlanBuffer& buffer = problem_.buffers[request];
    buffer.upper = std::min(buffer.upper, end + std::max<std::int64_t>(events, 1));
  }
}

void RepeatingProblem::Unroll(std::int64_t end) {
  const std::size_t buffers = problem_.buffers.size();
  problem_.buffers.reserve(2 * buffers);
  for (std::size_t i = 0; i < buffers; ++i) {
    PlanBuffer again = problem_.buffers[i];
    again.lower += end;
    again.upper += end;
    problem_.buffers.push_back(again);
  }
  const std::size_t waits = problem_.waits.size();
  problem_.waits.reserve(2 * waits);
  for (std::size_t i = 0; i < waits; ++i) {
    PlanWait again = problem_.waits[i];
    again.time += end;
    problem_.waits.push_back(again);
  }
}

// Returns the bytes that are live at each time of the circle.
std::vector<std::int64_t> RepeatingProblem::LiveBytes() const {
  std::vector<std::int64_t> live(static_cast<std::size_t>(end_) + 1);
  for (const PlanBuffer& buffer : problem_.buffers) {
    live[static_cast<std::size_t>(buffer.lower)] += buffer.bytes;
    if (buffer.upper < end_) {
      live[static_cast<std::size_t>(buffer.upper)] -= buffer.bytes;
    } else {
      live[0] += buffer.bytes;
      live[static_cast<std::size_t>(std::min(buffer.upper, 2 * end_) - end_)] -= buffer.bytes;
    }
  }
  live.pop_back();
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

std::int64_t RepeatingProblem::PeakBytes() const { return std::ranges::max(LiveBytes()); }

void RepeatingProblem::Cut() {
  const std::vector<std::int64_t> live = LiveBytes();
  const std::int64_t cut = std::ranges::min_element(live) - live.begin();
  for (PlanWait& wait : problem_.waits) wait.time = (wait.time - cut + end_) % end_;
  std::ranges::stable_sort(problem_.waits, {}, &PlanWait::time);
  for (PlanBuffer& buffer : problem_.buffers) {
    const std::int64_t duration = buffer.upper - buffer.lower;
    buffer.lower = (buffer.lower - cut + end_) % end_;
    buffer.upper = buffer.lower + duration;
  }
}

PlanProblem RepeatingProblem::Whole(const std::vector<Range>& fixed) const {
  PlanProblem problem = problem_;
  for (PlanBuffer& buffer : problem.buffers) {
    if (buffer.upper <= end_) continue;
    buffer.lower = 0;
    buffer.upper = end_;
  }
  for (const Range& range : fixed) {
    problem.buffers.push_back(
        {.lower = 0, .upper = end_, .bytes = range.bytes(), .offset = range.begin});
  }
  return problem;
}

// Returns the indices of the buffers that live across the cut for a part of the circle, the largest
// first.
std::vector<std::size_t> RepeatingProblem::Divisible() const {
  std::vector<std::size_t> divisible;
  for (std::size_t i = 0; i < problem_.buffers.size(); ++i) {
    const PlanBuffer& buffer = problem_.buffers[i];
    if (buffer.upper > end_ && buffer.upper - buffer.lower < end_) divisible.push_back(i);
  }
  std::ranges::stable_sort(divisible, std::ranges::greater(),
                           [&](std::size_t i) { return problem_.buffers[i].bytes; });
  return divisible;
}

std::optional<PlanProblem> RepeatingProblem::Divided(const std::vector<Range>& fixed) const {
  const std::vector<std::size_t> divisible = Divisible();
  if (divisible.empty() || divisible.size() > kMostDivided) return std::nullopt;
  PlanProblem problem = Whole(fixed);
  std::vector<Range> used = fixed;
  for (const std::size_t i : divisible) {
    const PlanBuffer& across = problem_.buffers[i];
    PlanBuffer& before_cut = problem.buffers[i];  // the part that the request begins
    before_cut.lower = across.lower;
    before_cut.offset = TakeLowest(used, across.bytes);
    PlanBuffer after_cut = before_cut;
    after_cut.lower = 0;
    after_cut.upper = across.upper - end_;
    problem.buffers.push_back(after_cut);
  }
  return problem;
}

}  // namespace tidepool::pool
