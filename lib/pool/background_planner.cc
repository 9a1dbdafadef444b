// SPDX-License-Identifier: Apache-2.0
// Only the newest order counts: an order that was not begun when the next came is likely out of
// date.
#include "lib/pool/background_planner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/locks/thread.h"
#include "tidepool/trace/plan.h"

namespace tidepool::pool {
namespace {

// Returns the bytes that are live at each time of a repeating iteration of `end` events. Lifetimes
// may reach beyond the end.
std::vector<std::int64_t> LiveBytes(const PlanProblem& problem, std::int64_t end) {
  std::vector<std::int64_t> live(static_cast<std::size_t>(end) + 1);
  for (const PlanBuffer& buffer : problem.buffers) {
    live[static_cast<std::size_t>(buffer.lower)] += buffer.bytes;
    if (buffer.upper < end) {
      live[static_cast<std::size_t>(buffer.upper)] -= buffer.bytes;
    } else {
      live[0] += buffer.bytes;
      live[static_cast<std::size_t>(std::min(buffer.upper, 2 * end) - end)] -= buffer.bytes;
    }
  }
  live.pop_back();
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

// Changes the lifetimes and waits of an iteration of `end` > 0 events: it begins where the fewest
// bytes are live.
void LetRepeat(PlanProblem& problem, const std::vector<CarriedFree>& carried_frees,
               std::int64_t end) {
  for (PlanBuffer& buffer : problem.buffers) {
    if (buffer.upper >= end) buffer.upper = buffer.lower + end;
  }
  for (const auto& [request, events] : carried_frees) {
    if (request >= problem.buffers.size()) continue;
    PlanBuffer& buffer = problem.buffers[request];
    buffer.upper = std::min(buffer.upper, end + std::max<std::int64_t>(events, 1));
  }
  const std::vector<std::int64_t> live = LiveBytes(problem, end);
  const std::int64_t begin = std::min_element(live.begin(), live.end()) - live.begin();
  for (PlanWait& wait : problem.waits) wait.time = (wait.time - begin + end) % end;
  std::ranges::stable_sort(problem.waits, {}, &PlanWait::time);
  for (PlanBuffer& buffer : problem.buffers) {
    const std::int64_t duration = buffer.upper - buffer.lower;
    buffer.lower = (buffer.lower - begin + end) % end;
    buffer.upper = buffer.lower + duration;
    if (buffer.upper <= end) continue;
    buffer.lower = 0;
    buffer.upper = end;
  }
}

// Returns the problem with the offsets that a plan of a similar iteration has.
PlanProblem WithAlike(PlanProblem problem, const PlanOrder& order) {
  for (std::size_t i = 0; i < order.requests_alike; ++i) {
    problem.buffers[i].offset = order.alike->requests()[i].offset;
  }
  return problem;
}

absl::StatusOr<Plan> PlanAlike(const PlanProblem& problem, const PlanOrder& order,
                               const PlanOptions& options) {
  if (order.requests_alike > 0) {
    absl::StatusOr<Plan> plan = MakePlan(WithAlike(problem, order), options);
    if (plan.ok()) return plan;
  }
  return MakePlan(problem, options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PlacementPlan>> PlanIteration(const PlanOrder& order,
                                                                   std::stop_token stop) {
  absl::StatusOr<PlanProblem> problem = plan::ProblemOf(order.iteration, order.alignment);
  if (!problem.ok()) return problem.status();
  const std::size_t requests = problem->buffers.size();
  const auto end = static_cast<std::int64_t>(order.iteration.events.size());
  LetRepeat(*problem, order.carried_frees, end);
  for (const Range& fixed : order.fixed) {
    problem->buffers.push_back(
        {.lower = 0, .upper = end, .bytes = fixed.bytes(), .offset = fixed.begin});
  }
  const absl::StatusOr<Plan> plan =
      PlanAlike(*problem, order, {.time_limit_seconds = order.seconds, .stop = std::move(stop)});
  if (!plan.ok()) return plan.status();
  return ToPlacementPlan(*problem, plan->offsets, requests);
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

PlacementPlans BackgroundPlanner::TakeFinished() {
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
    absl::StatusOr<std::shared_ptr<const PlacementPlan>> plan = PlanIteration(order, stop);
    mutex_.Lock();
    // Without a plan the iteration is served as before.
    if (plan.ok()) finished_.push_back(*std::move(plan));
    planning_.reset();
    changed_.SignalAll();
  }
  mutex_.Unlock();
}

}  // namespace tidepool::pool
