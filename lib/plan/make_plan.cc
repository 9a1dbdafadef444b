// Plans for whole problems. What repeats is planned once. Stretches of time that no buffer crosses
// the ends of are planned by themselves; the one with the highest plan is always the one to work
// on.
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
#include "lib/plan/team.h"
#include "lib/plan/twins.h"
#include "tidepool/trace/plan.h"

namespace tidepool {
namespace {

using plan::Deadline;
using plan::Instance;
using plan::Team;

class Planner {
 public:
  Planner(const PlanProblem& problem, const PlanOptions& options)
      : deadline_(options.time_limit_seconds, options.stop),
        instances_(plan::ToInstances(problem)) {
    for (const Instance& instance : instances_) {
      const Team& added = teams_.emplace_back(instance, options.seed,
                                              static_cast<std::size_t>(options.threads), deadline_);
      lower_bound_ = std::max(lower_bound_, LowerBound(added));
    }
    // What one stretch of time needs, another may take.
    lower_bound_alone_ = lower_bound_;
    enough_ = options.capacity.value_or(0);
  }

  void Run() {
    for (Team& team : teams_) team.TryHeuristics(Enough() / team.instance().unit);
    while (!teams_.empty()) {
      Team& highest = Highest();
      if (Bytes(highest) <= Enough() || lower_bound_ > CapacityOrMost()) return;
      if (deadline_.HasPassed()) return;
      const std::int64_t unit = highest.instance().unit;
      const std::int64_t enough_alone = std::max(enough_, lower_bound_alone_);
      if (!highest.SearchRound(Enough() / unit, enough_alone / unit)) return;
      lower_bound_ = std::max(lower_bound_, LowerBound(highest));
      lower_bound_alone_ = std::max(lower_bound_alone_, highest.lower_bound_alone() * unit);
    }
  }

  Plan Result(const PlanProblem& problem) {
    Plan plan;
    for (const PlanBuffer& buffer : problem.buffers) plan.offsets.push_back(buffer.offset);
    for (const Team& team : teams_) {
      const Instance& instance = team.instance();
      for (std::size_t i = 0; i < instance.buffer.size(); ++i) {
        plan.offsets[instance.buffer[i]] = team.offsets()[i] * instance.unit;
      }
      plan.height = std::max(plan.height, Bytes(team));
    }
    plan.lower_bound = lower_bound_;
    plan.optimal = plan.height == plan.lower_bound;
    plan.timed_out = deadline_.timed_out();
    plan.stopped = deadline_.is_stopped();
    return plan;
  }

 private:
  static std::int64_t Bytes(const Team& team) { return team.height() * team.instance().unit; }
  static std::int64_t LowerBound(const Team& team) {
    return team.lower_bound() * team.instance().unit;
  }

  std::int64_t Enough() const { return std::max(enough_, lower_bound_); }
  std::int64_t CapacityOrMost() const { return enough_ > 0 ? enough_ : INT64_MAX; }

  Team& Highest() {
    return *std::max_element(teams_.begin(), teams_.end(),
                             [](const Team& a, const Team& b) { return Bytes(a) < Bytes(b); });
  }

  Deadline deadline_;
  const std::vector<Instance> instances_;
  std::deque<Team> teams_;              // one an instance
  std::int64_t lower_bound_ = 0;        // of all, in bytes
  std::int64_t lower_bound_alone_ = 0;  // what it would be with one thread
  std::int64_t enough_ = 0;             // the capacity, or 0
};

}  // namespace

namespace {

bool HasTwins(const std::vector<std::uint32_t>& twins) {
  for (std::uint32_t i = 0; i < twins.size(); ++i) {
    if (twins[i] != i) return true;
  }
  return false;
}

// The buffers that are their own twins, in their order.
PlanProblem WithoutTwins(const PlanProblem& problem, const std::vector<std::uint32_t>& twins) {
  PlanProblem rest;
  for (std::uint32_t i = 0; i < twins.size(); ++i) {
    if (twins[i] == i) rest.buffers.push_back(problem.buffers[i]);
  }
  return rest;
}

// The offsets of all, from those of the buffers that are their own twins.
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
    return absl::InternalError(absl::StrCat("a plan that is none: ", valid.message()));
  }
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace tidepool
