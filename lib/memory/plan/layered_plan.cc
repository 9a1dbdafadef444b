// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/plan/layered_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "lib/base/arithmetic.h"
#include "lib/memory/plan/ejection_search.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/minimizer.h"
#include "lib/memory/plan/planner.h"

namespace tidepool::plan {
namespace {

// Lowers the plan of an instance, first by halves of the way to the goal.
class Descent {
 public:
  Descent(const Instance& instance, std::int64_t goal, const LayeredOptions& options,
          budget::Budget& whole)
      : instance_(instance),
        goal_(std::max(goal, instance.lower_bound)),
        seed_(options.seed),
        left_(static_cast<std::int64_t>(options.work / (instance.count() + instance.obstacles()))),
        whole_(whole),
        minimizer_(instance, options.seed, whole) {
    minimizer_.TryHeuristics(goal_);
  }

  Offsets Run() {
    while (minimizer_.height() > goal_ && left_ > 0 && !whole_.HasEnded()) {
      if (Try(NextCapacity())) {
        share_ = std::min(1.0, share_ * kLonger);
      } else {
        share_ = share_ * kShorter < kLeastShare ? 1 : share_ * kShorter;
      }
    }
    return minimizer_.offsets();
  }

 private:
  static constexpr double kLonger = 1.5;
  static constexpr double kShorter = 0.6;
  static constexpr double kLeastShare = 0.05;
  static constexpr std::int64_t kStepsOfATry = 5000;
  // A try that fails at once has built its lists.
  static constexpr std::int64_t kStepsOfAFailure = 50;

  std::int64_t NextCapacity() const {
    const auto way = static_cast<double>(minimizer_.height() - goal_);
    const auto step = static_cast<std::int64_t>(way * share_);
    return minimizer_.height() - std::max<std::int64_t>(1, step);
  }

  bool Try(std::int64_t capacity) {
    const std::int64_t steps = std::min(left_, kStepsOfATry);
    budget::Budget budget(whole_, steps);
    FullestPlan found =
        SearchByEjection(instance_, capacity, minimizer_.offsets(), {.seed = seed_++}, budget);
    const std::int64_t taken = steps - static_cast<std::int64_t>(budget.work_left());
    left_ -= found.IsComplete() ? taken : std::max(taken, kStepsOfAFailure);
    if (!found.IsComplete()) return false;
    minimizer_.Take(std::move(found.offsets));
    return true;
  }

  const Instance& instance_;
  const std::int64_t goal_;
  std::uint64_t seed_;
  std::int64_t left_;  // steps
  budget::Budget& whole_;
  Minimizer minimizer_;
  double share_ = 0.5;  // of the way to the goal that is tried next
};

class LayeredPlanner {
 public:
  LayeredPlanner(const PlanProblem& problem, const LayeredOptions& options, budget::Budget& whole)
      : problem_(problem), options_(options), whole_(whole) {
    plan_.offsets.resize(problem.buffers.size());
  }

  Plan Make() {
    FindFixed();
    if (fixed_.empty()) FindThroughout();
    FindSmall();
    const std::int64_t small_height = Add(small_, 0, options_.capacity / kPartOfSmall);
    const std::int64_t top = Add(AroundFixed(large_), bottom_, options_.capacity - small_height);
    for (const std::size_t buffer : small_) plan_.offsets[buffer] += top;
    for (std::size_t i = 0; i < problem_.buffers.size(); ++i) {
      plan_.height = std::max(plan_.height, plan_.offsets[i] + problem_.buffers[i].bytes);
    }
    plan_.lower_bound = LowerBoundOf(problem_);
    plan_.optimal = plan_.height == plan_.lower_bound;
    return std::move(plan_);
  }

 private:
  using Numbers = std::vector<std::size_t>;  // of buffers

  std::int64_t RoundedSize(std::size_t buffer) const {
    return AlignUp(problem_.buffers[buffer].bytes, problem_.buffers[buffer].alignment);
  }

  static constexpr std::int64_t kPartOfSmall = 512;  // of the capacity, for all small buffers

  void FindFixed() {
    for (std::size_t i = 0; i < problem_.buffers.size(); ++i) {
      plan_.offsets[i] = problem_.buffers[i].offset;
      (IsFixed(problem_.buffers[i]) ? fixed_ : large_).push_back(i);
    }
  }

  void FindThroughout() {
    std::int64_t begin = INT64_MAX;
    std::int64_t end = INT64_MIN;
    for (const PlanBuffer& buffer : problem_.buffers) {
      begin = std::min(begin, buffer.lower);
      end = std::max(end, buffer.upper);
    }
    std::erase_if(large_, [&](std::size_t i) {
      const PlanBuffer& buffer = problem_.buffers[i];
      if (buffer.lower != begin || buffer.upper != end) return false;
      plan_.offsets[i] = bottom_;
      bottom_ += RoundedSize(i);
      return true;
    });
  }

  void FindSmall() {
    std::stable_sort(large_.begin(), large_.end(), [&](std::size_t a, std::size_t b) {
      return problem_.buffers[a].bytes < problem_.buffers[b].bytes;
    });
    const auto first = large_.begin() + static_cast<std::ptrdiff_t>(MostSmall());
    small_.assign(large_.begin(), first);
    large_.erase(large_.begin(), first);
  }

  // Returns how many of the smallest buffers are small.
  std::size_t MostSmall() const {
    std::size_t most = 0;
    for (std::size_t fails = large_.size() + 1; fails - most > 1;) {
      const std::size_t middle = most + (fails - most) / 2;
      (AreSmall(middle) ? most : fails) = middle;
    }
    return most;
  }

  // Whether the largest `count` buffers need few bytes, and leave enough to the others.
  bool AreSmall(std::size_t count) const {
    const auto first = large_.begin() + static_cast<std::ptrdiff_t>(count);
    const std::int64_t small = LowerBoundOf(Layer({large_.begin(), first}));
    if (small > options_.capacity / kPartOfSmall) return false;
    const Numbers rest = AroundFixed({first, large_.end()});
    return bottom_ + small + LowerBoundOf(Layer(rest)) <= options_.capacity;
  }

  Numbers AroundFixed(Numbers buffers) const {
    buffers.insert(buffers.end(), fixed_.begin(), fixed_.end());
    return buffers;
  }

  PlanProblem Layer(const Numbers& buffers) const {
    PlanProblem layer;
    layer.buffers.reserve(buffers.size());
    for (const std::size_t buffer : buffers) {
      layer.buffers.push_back(problem_.buffers[buffer]);
      if (!IsFixed(layer.buffers.back())) layer.buffers.back().bytes = RoundedSize(buffer);
    }
    return layer;
  }

  // Plans buffers above `bottom`, or around fixed ones. Returns the height.
  std::int64_t Add(const Numbers& buffers, std::int64_t bottom, std::int64_t capacity) {
    std::int64_t height = bottom;
    for (const Instance& instance : ToInstances(Layer(buffers))) {
      const std::int64_t goal = std::max<std::int64_t>(capacity - bottom, 0) / instance.unit;
      const Offsets offsets = Descent(instance, goal, options_, whole_).Run();
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        plan_.offsets[buffers[instance.buffer[i]]] = bottom + offsets[i] * instance.unit;
      }
      height = std::max(height, bottom + Height(instance, offsets) * instance.unit);
    }
    return height;
  }

  const PlanProblem& problem_;
  const LayeredOptions& options_;
  budget::Budget& whole_;
  Numbers fixed_;
  Numbers small_;
  Numbers large_;
  std::int64_t bottom_ = 0;  // the top of all that live throughout
  Plan plan_;
};

}  // namespace

Plan PlanInLayers(const PlanProblem& problem, const LayeredOptions& options,
                  budget::Budget& whole) {
  return LayeredPlanner(problem, options, whole).Make();
}

}  // namespace tidepool::plan
