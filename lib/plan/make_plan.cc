// SPDX-License-Identifier: Apache-2.0
// Plans whole problems. Equal episodes are planned once. A time that no buffer crosses divides the
// problem into intervals, which are planned separately. The search always works on the interval
// with the highest plan.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/plan/budget.h"
#include "lib/plan/check_problem.h"
#include "lib/plan/instance.h"
#include "lib/plan/minimizer.h"
#include "lib/plan/twins.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

using plan::Deadline;
using plan::Instance;
using plan::Minimizer;

class Planner {
 public:
  Planner(const PlanProblem& problem, const PlanOptions& options)
      : deadline_(options.time_limit_seconds, options.stop),
        instances_(plan::ToInstances(problem)) {
    for (const Instance& instance : instances_) {
      const Minimizer& added = minimizers_.emplace_back(instance, options.seed, deadline_);
      lower_bound_ = std::max(lower_bound_, LowerBound(added));
    }
    enough_ = options.capacity.value_or(0);
  }

  void Run() {
    for (Minimizer& minimizer : minimizers_)
      minimizer.TryHeuristics(Enough() / minimizer.instance().unit);
    while (!minimizers_.empty()) {
      Minimizer& highest = Highest();
      if (Bytes(highest) <= Enough() || lower_bound_ > CapacityOrMost()) return;
      if (deadline_.HasPassed()) return;
      const std::int64_t unit = highest.instance().unit;
      if (!highest.SearchRound(Enough() / unit)) return;
      lower_bound_ = std::max(lower_bound_, LowerBound(highest));
    }
  }

  Plan Result(const PlanProblem& problem) {
    Plan plan;
    for (const PlanBuffer& buffer : problem.buffers) plan.offsets.push_back(buffer.offset);
    for (const Minimizer& minimizer : minimizers_) {
      const Instance& instance = minimizer.instance();
      for (std::size_t i = 0; i < instance.buffer.size(); ++i) {
        plan.offsets[instance.buffer[i]] = minimizer.offsets()[i] * instance.unit;
      }
      plan.height = std::max(plan.height, Bytes(minimizer));
    }
    plan.lower_bound = lower_bound_;
    plan.optimal = plan.height == plan.lower_bound;
    plan.timed_out = deadline_.timed_out();
    plan.stopped = deadline_.is_stopped();
    return plan;
  }

 private:
  static std::int64_t Bytes(const Minimizer& minimizer) {
    return minimizer.height() * minimizer.instance().unit;
  }
  static std::int64_t LowerBound(const Minimizer& minimizer) {
    return minimizer.lower_bound() * minimizer.instance().unit;
  }

  std::int64_t Enough() const { return std::max(enough_, lower_bound_); }
  std::int64_t CapacityOrMost() const { return enough_ > 0 ? enough_ : INT64_MAX; }

  Minimizer& Highest() {
    return *std::max_element(
        minimizers_.begin(), minimizers_.end(),
        [](const Minimizer& a, const Minimizer& b) { return Bytes(a) < Bytes(b); });
  }

  Deadline deadline_;
  const std::vector<Instance> instances_;
  std::deque<Minimizer> minimizers_;  // one per instance
  std::int64_t lower_bound_ = 0;      // of all instances, in bytes
  std::int64_t enough_ = 0;           // the capacity, or 0
};

bool HasTwins(const std::vector<std::uint32_t>& twins) {
  for (std::uint32_t i = 0; i < twins.size(); ++i) {
    if (twins[i] != i) return true;
  }
  return false;
}

// Returns the buffers that are their own twins, in their order.
PlanProblem WithoutTwins(const PlanProblem& problem, const std::vector<std::uint32_t>& twins) {
  PlanProblem rest;
  for (std::uint32_t i = 0; i < twins.size(); ++i) {
    if (twins[i] == i) rest.buffers.push_back(problem.buffers[i]);
  }
  return rest;
}

// Returns the offsets of all buffers, from those of the buffers that are their own twins.
std::vector<std::int64_t> WithTwins(const std::vector<std::int64_t>& offsets,
                                    const std::vector<std::uint32_t>& twins) {
  std::vector<std::int64_t> all(twins.size());
  auto next = offsets.begin();
  for (std::uint32_t i = 0; i < twins.size(); ++i) {
    if (twins[i] == i) all[i] = *next++;
  }
  for (std::uint32_t i = 0; i < twins.size(); ++i) all[i] = all[twins[i]];
  return all;
}

}  // namespace

absl::StatusOr<std::int64_t> PlanLowerBound(const PlanProblem& problem) {
  if (absl::Status status = plan::CheckProblem(problem); !status.ok()) return status;
  std::int64_t bound = 0;
  for (const Instance& instance : plan::ToInstances(problem)) {
    bound = std::max(bound, instance.lower_bound * instance.unit);
  }
  return bound;
}

namespace {

Plan PlanWithoutTwins(const PlanProblem& problem, const PlanOptions& options) {
  Planner planner(problem, options);
  planner.Run();
  return planner.Result(problem);
}

Plan PlanOnce(const PlanProblem& problem, const PlanOptions& options) {
  const std::vector<std::uint32_t> twins = plan::FindTwins(problem);
  if (!HasTwins(twins)) return PlanWithoutTwins(problem, options);
  Plan plan = PlanWithoutTwins(WithoutTwins(problem, twins), options);
  plan.offsets = WithTwins(plan.offsets, twins);
  return plan;
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const PlanProblem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (absl::Status status = plan::CheckProblem(problem); !status.ok()) return status;
  if (absl::Status status = plan::CheckOptions(problem, options); !status.ok()) return status;
  Plan plan = PlanOnce(problem, options);
  if (absl::Status valid = ValidatePlan(problem, plan.offsets, plan.height); !valid.ok()) {
    return absl::InternalError(absl::StrCat("the planner made an invalid plan: ", valid.message()));
  }
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace tidepool
