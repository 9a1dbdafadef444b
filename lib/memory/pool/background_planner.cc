// SPDX-License-Identifier: Apache-2.0
// Only the newest order counts: an order that was not begun when the next came is likely out of
// date.
#include "lib/memory/pool/background_planner.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "lib/base/locks/thread.h"
#include "lib/memory/pool/repeating_problem.h"
#include "tidepool/trace/plan.h"

namespace tidepool::pool {
namespace {

// Memory that an iteration may save by addresses of its own, at least, as a part of its height: the
// first iteration there has to move, and pieces of memory stay with the fixed ranges.
constexpr std::int64_t kLeastPartSaved = 16;

// Returns the problem with the offsets that a plan of a similar iteration has.
PlanProblem WithAlike(PlanProblem problem, const PlanOrder& order) {
  for (std::size_t i = 0; i < order.requests_alike; ++i) {
    problem.buffers[i].offset = order.alike->requests()[i].offset;
  }
  return problem;
}

// A problem with its plan.
struct Planned {
  PlanProblem problem;
  Plan plan;
};

absl::StatusOr<Planned> MakePlanned(PlanProblem problem, const PlanOptions& options) {
  absl::StatusOr<Plan> plan = MakePlan(problem, options);
  if (!plan.ok()) return plan.status();
  return Planned{std::move(problem), *std::move(plan)};
}

absl::StatusOr<Planned> PlanAlike(const PlanProblem& problem, const PlanOrder& order,
                                  const PlanOptions& options) {
  if (order.requests_alike > 0) {
    absl::StatusOr<Planned> planned = MakePlanned(WithAlike(problem, order), options);
    if (planned.ok()) return planned;
  }
  return MakePlanned(problem, options);
}

// Returns the highest end of the first `requests` buffers.
std::int64_t EndOfRequests(const Planned& planned, std::size_t requests) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    end = std::max(end, planned.plan.offsets[i] + planned.problem.buffers[i].bytes);
  }
  return end;
}

// Plans with whole buffers, and with divided ones, which mostly is lower. But divided buffers have
// fixed offsets, which may be in the way of others or of another stream.
absl::StatusOr<Planned> PlanLowest(const RepeatingProblem& repeating, const PlanOrder& order,
                                   const std::vector<Range>& fixed, PlanOptions options) {
  std::optional<PlanProblem> divided;
  if (order.requests_alike == 0) divided = repeating.Divided(fixed);
  if (divided.has_value()) options.time_limit_seconds /= 2;
  absl::StatusOr<Planned> whole = PlanAlike(repeating.Whole(fixed), order, options);
  if (!whole.ok() || !divided.has_value()) return whole;
  absl::StatusOr<Planned> lower = MakePlanned(*std::move(divided), options);
  const std::size_t requests = repeating.iterations() * order.iteration.bytes.size();
  if (!lower.ok() || EndOfRequests(*lower, requests) >= EndOfRequests(*whole, requests)) {
    return whole;
  }
  return lower;
}

// Returns the fixed ranges of an order, and all offsets before its base.
std::vector<Range> ObstaclesOf(const PlanOrder& order) {
  std::vector<Range> obstacles;
  if (order.base > 0) obstacles.push_back({0, order.base});
  obstacles.insert(obstacles.end(), order.fixed.begin(), order.fixed.end());
  return obstacles;
}

// Returns a plan at addresses without fixed ranges, if memory for both is clearly less than the
// memory among them, `bytes`.
std::optional<Planned> PlanApart(const RepeatingProblem& repeating, const PlanOrder& order,
                                 std::int64_t bytes, const PlanOptions& options) {
  if (!order.apart.has_value() || order.requests_alike > 0) return std::nullopt;
  std::int64_t fixed_bytes = 0;
  for (const Range& range : order.fixed) fixed_bytes += range.bytes();
  const auto is_less = [&](std::int64_t own_bytes) {
    return fixed_bytes + own_bytes + own_bytes / kLeastPartSaved < bytes;
  };
  if (!is_less(repeating.PeakBytes())) return std::nullopt;
  absl::StatusOr<Planned> planned =
      PlanLowest(repeating, order, {{0, order.apart->begin}}, options);
  if (!planned.ok()) return std::nullopt;
  const std::int64_t end =
      EndOfRequests(*planned, repeating.iterations() * order.iteration.bytes.size());
  if (end > order.apart->end || !is_less(end - order.apart->begin)) return std::nullopt;
  return *std::move(planned);
}

// Returns the plans of the iterations of a circle, of which each has that number of requests.
PlacementPlans PlansOf(const Planned& planned, const RepeatingProblem& repeating,
                       std::size_t requests) {
  const std::size_t iterations = repeating.iterations();
  auto all = ToPlacementPlan(planned.problem, planned.plan.offsets, iterations * requests);
  if (iterations == 1) return {std::move(all)};
  PlacementPlans plans;
  plans.reserve(iterations);
  for (std::size_t i = 0; i < iterations; ++i) {
    const auto begin = all->requests().begin() + static_cast<std::ptrdiff_t>(i * requests);
    plans.push_back(std::make_shared<const PlacementPlan>(
        std::vector<PlannedRequest>(begin, begin + static_cast<std::ptrdiff_t>(requests))));
  }
  return plans;
}

}  // namespace

absl::StatusOr<IterationPlans> PlanIteration(const PlanOrder& order, std::stop_token stop) {
  absl::StatusOr<PlanProblem> problem = plan::ProblemOf(order.iteration, order.alignment);
  if (!problem.ok()) return problem.status();
  const auto end = static_cast<std::int64_t>(order.iteration.events.size());
  const bool may_unroll = order.requests_alike == 0;
  const RepeatingProblem repeating(*std::move(problem), end, order.carried_frees, may_unroll);
  const PlanOptions options = {.time_limit_seconds = order.seconds, .stop = std::move(stop)};
  const absl::StatusOr<Planned> planned = PlanLowest(repeating, order, ObstaclesOf(order), options);
  if (!planned.ok()) return planned.status();
  const std::size_t requests = order.iteration.bytes.size();
  const std::int64_t height = EndOfRequests(*planned, repeating.iterations() * requests);
  if (const std::optional<Planned> apart =
          PlanApart(repeating, order, height - order.base, options)) {
    return IterationPlans{PlansOf(*apart, repeating, requests), order.base, order.apart->begin};
  }
  return IterationPlans{PlansOf(*planned, repeating, requests), order.base, order.base};
}

BackgroundPlanner::~BackgroundPlanner() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void BackgroundPlanner::Start(PlanOrder order) {
  const locks::MutexLock lock(&mutex_);
  waiting_ = std::move(order);
  changed_.SignalAll();
  if (thread_.joinable()) return;
  auto thread =
      locks::StartThread<std::jthread>([this](const std::stop_token& stop) { Run(stop); });
  if (!thread.ok()) {
    waiting_.reset();  // without a thread there is no plan
    return;
  }
  thread_ = *std::move(thread);
}

bool BackgroundPlanner::IsPlanning(std::uint64_t signature) const {
  const locks::MutexLock lock(&mutex_);
  return planning_ == signature || (waiting_.has_value() && waiting_->signature == signature);
}

std::vector<IterationPlans> BackgroundPlanner::TakeFinished() {
  const locks::MutexLock lock(&mutex_);
  return std::exchange(finished_, {});
}

void BackgroundPlanner::Await() {
  const locks::MutexLock lock(&mutex_);
  while (!IsIdle()) changed_.Wait(&mutex_);
}

void BackgroundPlanner::Run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const locks::MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  mutex_.Lock();
  for (;;) {
    while (!waiting_.has_value() && !stop.stop_requested()) changed_.Wait(&mutex_);
    if (stop.stop_requested()) break;
    const PlanOrder order = *std::exchange(waiting_, std::nullopt);
    planning_ = order.signature;
    mutex_.Unlock();
    absl::StatusOr<IterationPlans> plans = PlanIteration(order, stop);
    mutex_.Lock();
    // Without a plan the iteration is served as before.
    if (plans.ok()) finished_.push_back(*std::move(plans));
    planning_.reset();
    changed_.SignalAll();
  }
  mutex_.Unlock();
}

}  // namespace tidepool::pool
