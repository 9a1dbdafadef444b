// SPDX-License-Identifier: Apache-2.0
// Equal episodes are planned once. A time that no buffer crosses divides the problem into
// intervals, which are planned separately. The search always works on the interval with the highest
// plan.
#include "lib/memory/plan/planner.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/minimizer.h"
#include "lib/memory/plan/reuse_times.h"
#include "lib/memory/plan/twins.h"

namespace tidepool::plan {
namespace {

// Returns the problem of each stream's buffers alone, and the numbers of the buffers in the
// instance.
std::map<std::uint32_t, std::pair<PlanProblem, std::vector<std::size_t>>> StreamsApart(
    const PlanProblem& problem, const Instance& instance, const ReuseTimes& reuse) {
  std::map<std::uint32_t, std::pair<PlanProblem, std::vector<std::size_t>>> parts;
  for (std::size_t i = 0; i < instance.buffer.size(); ++i) {
    PlanBuffer buffer = problem.buffers[instance.buffer[i]];
    const std::uint32_t stream = std::exchange(buffer.stream, 0);
    buffer.upper = reuse.For(problem.buffers[instance.buffer[i]], stream);
    buffer.free_stream = 0;
    auto& [part, numbers] = parts[stream];
    part.buffers.push_back(buffer);
    numbers.push_back(i);
  }
  return parts;
}

// Plans each stream's buffers alone, one stream above the other.
Offsets PlanStreamsApart(const PlanProblem& problem, const Instance& instance,
                         const ReuseTimes& reuse, const PlanOptions& options,
                         budget::Budget& whole) {
  constexpr std::uint64_t kRoundsOfAPart = 6;
  Offsets offsets(instance.buffer.size());
  const std::int64_t alignment = *std::ranges::max_element(instance.alignment);
  std::int64_t top = 0;
  for (const auto& [stream, content] : StreamsApart(problem, instance, reuse)) {
    const auto& [part, numbers] = content;
    const Plan plan = MakePlanIn(part, {.seed = options.seed}, kRoundsOfAPart, whole);
    top = AlignUp(top, alignment);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      offsets[numbers[i]] = top + plan.offsets[i] / instance.unit;
    }
    top += plan.height / instance.unit;
  }
  return offsets;
}

class Planner {
 public:
  Planner(const PlanProblem& problem, const PlanOptions& options, budget::Budget& whole)
      : problem_(problem), options_(options), whole_(whole), instances_(ToInstances(problem)) {
    for (const Instance& instance : instances_) {
      const Minimizer& added = minimizers_.emplace_back(instance, options.seed, whole_);
      lower_bound_ = std::max(lower_bound_, LowerBound(added));
    }
    enough_ = options.capacity.value_or(0);
    if (HasSeveralStreams(problem)) TryStreamsApart();
  }

  void Run(std::uint64_t most_rounds) {
    for (Minimizer& minimizer : minimizers_)
      minimizer.TryHeuristics(Enough() / minimizer.instance().unit);
    for (std::uint64_t round = 0; round < most_rounds && !minimizers_.empty(); ++round) {
      Minimizer& highest = Highest();
      if (Bytes(highest) <= Enough() || lower_bound_ > CapacityOrMost()) return;
      if (whole_.HasEnded()) return;
      const std::int64_t unit = highest.instance().unit;
      if (!highest.SearchRound(Enough() / unit)) return;
      lower_bound_ = std::max(lower_bound_, LowerBound(highest));
    }
  }

  Plan Result() {
    Plan plan;
    for (const PlanBuffer& buffer : problem_.buffers) plan.offsets.push_back(buffer.offset);
    for (const Minimizer& minimizer : minimizers_) {
      const Instance& instance = minimizer.instance();
      for (std::size_t i = 0; i < instance.buffer.size(); ++i) {
        plan.offsets[instance.buffer[i]] = minimizer.offsets()[i] * instance.unit;
      }
      plan.height = std::max(plan.height, Bytes(minimizer));
    }
    plan.lower_bound = lower_bound_;
    plan.optimal = plan.height == plan.lower_bound;
    return plan;
  }

 private:
  void TryStreamsApart() {
    lower_bound_ = std::max(lower_bound_, LowerBoundOf(problem_));
    const ReuseTimes reuse(problem_);
    for (Minimizer& minimizer : minimizers_) {
      const Instance& instance = minimizer.instance();
      if (instance.obstacles() > 0) continue;
      minimizer.Take(PlanStreamsApart(problem_, instance, reuse, options_, whole_));
    }
  }

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

  const PlanProblem& problem_;
  const PlanOptions& options_;
  budget::Budget& whole_;
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

Plan PlanWithoutTwins(const PlanProblem& problem, const PlanOptions& options,
                      std::uint64_t most_rounds, budget::Budget& whole) {
  Planner planner(problem, options, whole);
  planner.Run(most_rounds);
  return planner.Result();
}

}  // namespace

Plan MakePlanIn(const PlanProblem& problem, const PlanOptions& options, std::uint64_t most_rounds,
                budget::Budget& whole) {
  if (HasSeveralStreams(problem)) {
    return PlanWithoutTwins(problem, options, most_rounds, whole);
  }
  const std::vector<std::uint32_t> twins = FindTwins(problem);
  if (!HasTwins(twins)) return PlanWithoutTwins(problem, options, most_rounds, whole);
  Plan plan = PlanWithoutTwins(WithoutTwins(problem, twins), options, most_rounds, whole);
  plan.offsets = WithTwins(plan.offsets, twins);
  return plan;
}

}  // namespace tidepool::plan
