// SPDX-License-Identifier: Apache-2.0
// All sizes and offsets are counted in units of the alignment.
#include "lib/training/schedule/stay_search.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "lib/memory/plan/instance.h"
#include "lib/training/schedule/placed_stays.h"
#include "lib/training/schedule/stay_ejection.h"
#include "lib/training/schedule/stay_problem.h"

namespace tidepool::schedule {
namespace {

using plan::Offsets;
using Numbers = std::vector<std::size_t>;  // of stays

class LivesPlanner {
 public:
  LivesPlanner(const std::vector<LivingStay>& stays, const StaySearchOptions& options)
      : options_(options),
        capacity_(options.memory_bytes / options.alignment),
        problem_{stays, {}, {}, std::vector<std::int64_t>(stays.size()), {}} {
    for (const LivingStay& stay : stays) {
      problem_.spans.push_back(
          {stay.lives.front().lower, stay.lives.back().upper, stay.lives.size() == 1});
      problem_.sizes.push_back((stay.bytes + options.alignment - 1) / options.alignment);
    }
    Stack();
    if (GoesOn()) BeginNear();
    best_ = Complete(best_);
  }

  Plan Make(budget::Budget& whole) {
    auto left = static_cast<std::int64_t>(
        options_.work / static_cast<double>(std::max<std::size_t>(best_.size(), 1)));
    if (IsEnough() || !CanFit()) left = 0;
    std::int64_t least_unplaced = std::numeric_limits<std::int64_t>::max();
    for (std::uint64_t tries = 0; tries < kMostTries && left > 0; ++tries) {
      const std::int64_t steps = std::min(left, kStepsOfATry);
      budget::Budget budget(whole, steps);
      const FullestStays fullest = EjectStays(problem_, best_,
                                              {.capacity = capacity_,
                                               .tenure = kTenures[tries % std::size(kTenures)],
                                               .seed = options_.seed + tries},
                                              budget);
      left -= steps;
      if (GoesOn() && fullest.unplaced_size > least_unplaced) continue;
      least_unplaced = fullest.unplaced_size;
      Offsets found = Complete(fullest.offsets);
      if (GoesOn() || Height(found) < Height(best_)) best_ = std::move(found);
      if (IsEnough() || whole.HasEnded()) break;
    }
    Plan plan;
    plan.height = Height(best_);
    for (const std::int64_t offset : best_) plan.offsets.push_back(offset * options_.alignment);
    return plan;
  }

 private:
  static constexpr std::int64_t kStepsOfATry = 1500;
  static constexpr std::uint64_t kMostTries = 8;
  static constexpr std::int64_t kTenures[] = {10, 3};

  const std::vector<LivingStay>& stays() const { return problem_.stays; }
  bool GoesOn() const { return !options_.near.empty(); }
  bool IsEnough() const { return Height(best_) <= options_.memory_bytes; }

  // Stacks the stays that are always there, and those that are gone before another comes and
  // come back once, to stay: weights that never leave, and gradients. Those that come back last lie
  // on top, so that once they have left the stack only grows.
  void Stack() {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
    for (const LivingStay& stay : stays()) {
      begin = std::min(begin, stay.lives.front().lower);
      end = std::max(end, stay.lives.back().upper);
    }
    std::int64_t first_coming = end;
    for (const LivingStay& stay : stays()) {
      const std::int64_t lower = stay.lives.front().lower;
      if (lower > begin) first_coming = std::min(first_coming, lower);
    }
    Numbers stack;
    for (std::size_t i = 0; i < stays().size(); ++i) {
      const std::vector<Life>& lives = stays()[i].lives;
      const bool is_at_ends = lives.front().lower == begin && lives.back().upper == end;
      const bool is_gone_first = lives.size() == 2 && lives.front().upper <= first_coming;
      const bool is_stacked = is_at_ends && (lives.size() == 1 || is_gone_first);
      (is_stacked ? stack : problem_.above).push_back(i);
    }
    const auto last_begin = [&](std::size_t i) { return stays()[i].lives.back().lower; };
    std::stable_sort(stack.begin(), stack.end(),
                     [&](std::size_t a, std::size_t b) { return last_begin(a) < last_begin(b); });
    std::sort(problem_.above.begin(), problem_.above.end(),
              [&](std::size_t a, std::size_t b) { return problem_.IsLargerThan(a, b); });
    best_.assign(stays().size(), kUnplacedStay);
    std::int64_t top = 0;
    for (const std::size_t i : stack) {
      best_[i] = top;
      top += problem_.sizes[i];
    }
    for (const std::size_t i : problem_.above) {
      const auto highest = std::find_if(stack.rbegin(), stack.rend(), [&](std::size_t stacked) {
        return problem_.Overlap(stacked, i);
      });
      if (highest != stack.rend()) problem_.floors[i] = best_[*highest] + problem_.sizes[*highest];
    }
  }

  // Takes the offsets of the plan near by that are free.
  void BeginNear() {
    PlacedStays placed(problem_);
    for (const std::size_t stay : problem_.above) {
      if (options_.near[stay] < 0) continue;
      const std::int64_t offset = options_.near[stay] / options_.alignment;
      const bool is_inside =
          offset >= problem_.floors[stay] && offset + problem_.sizes[stay] <= capacity_;
      if (!is_inside || !placed.IsFree(stay, offset)) continue;
      best_[stay] = offset;
      placed.Insert(stay, offset);
    }
  }

  // Returns offsets with those of all stays: the others by first fit.
  Offsets Complete(Offsets offsets) const {
    PlacedStays placed(problem_);
    for (const std::size_t stay : problem_.above) {
      if (offsets[stay] != kUnplacedStay) placed.Insert(stay, offsets[stay]);
    }
    for (const std::size_t stay : problem_.above) {
      if (offsets[stay] != kUnplacedStay) continue;
      offsets[stay] = placed.FirstFit(stay);
      placed.Insert(stay, offsets[stay]);
    }
    return offsets;
  }

  std::int64_t Height(const Offsets& offsets) const {
    std::int64_t height = 0;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      height = std::max(height, offsets[i] * options_.alignment + stays()[i].bytes);
    }
    return height;
  }

  // Whether each stay fits above its floor, and no step needs more than the memory.
  bool CanFit() const {
    const auto fits = [&](std::size_t i) {
      return problem_.floors[i] + problem_.sizes[i] <= capacity_;
    };
    if (!std::all_of(problem_.above.begin(), problem_.above.end(), fits)) return false;
    std::vector<std::pair<std::int64_t, std::int64_t>> changes;  // step and size
    for (std::size_t i = 0; i < stays().size(); ++i) {
      for (const Life& life : stays()[i].lives) {
        changes.emplace_back(life.lower, problem_.sizes[i]);
        changes.emplace_back(life.upper, -problem_.sizes[i]);
      }
    }
    std::sort(changes.begin(), changes.end());
    std::int64_t used = 0;
    return std::all_of(changes.begin(), changes.end(), [&](const auto& change) {
      used += change.second;
      return used <= capacity_;
    });
  }

  const StaySearchOptions& options_;
  const std::int64_t capacity_;
  StayProblem problem_;
  Offsets best_;
};

}  // namespace

void Join(std::vector<Life>& lives) {
  std::sort(lives.begin(), lives.end(),
            [](const Life& a, const Life& b) { return a.lower < b.lower; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < lives.size(); ++i) {
    if (lives[i].lower <= lives[last].upper) {
      lives[last].upper = std::max(lives[last].upper, lives[i].upper);
    } else {
      lives[++last] = lives[i];
    }
  }
  lives.resize(std::min(lives.size(), last + 1));
}

Plan PlanStays(const std::vector<LivingStay>& stays, const StaySearchOptions& options,
               budget::Budget& whole) {
  return LivesPlanner(stays, options).Make(whole);
}

}  // namespace tidepool::schedule
