// SPDX-License-Identifier: Apache-2.0
// Stacks the buffers that are always there, and plans the others above them.
#include "lib/memory/plan/lives_plan.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "lib/base/arithmetic.h"
#include "lib/memory/plan/ejection_search.h"
#include "lib/memory/plan/first_fit_plan.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/order.h"
#include "lib/memory/plan/placed_lists.h"

namespace tidepool::plan {
namespace {

// All sizes and offsets are counted in units of the alignment.
class LivesPlanner {
 public:
  LivesPlanner(const std::vector<LivingBuffer>& buffers, const LivesOptions& options)
      : buffers_(buffers),
        options_(options),
        capacity_(options.capacity / options.alignment),
        stacked_(buffers.size(), kUnplaced) {
    Stack();
    instance_ = ToInstance(buffers_, above_, options.alignment);
    FindFloors();
    order_ = OrderBy(instance_, kLargestFirst);
    best_.assign(above_.size(), kUnplaced);
    if (GoesOn()) BeginNear();
    CompleteByFirstFit(instance_, order_, best_);
  }

  Plan Make(budget::Budget& whole) {
    if (CanFit()) Search(whole);
    Plan plan;
    plan.height = HeightOf(best_);
    plan.offsets = stacked_;
    for (std::size_t k = 0; k < above_.size(); ++k) plan.offsets[above_[k]] = best_[k];
    for (std::int64_t& offset : plan.offsets) offset *= options_.alignment;
    return plan;
  }

 private:
  using Numbers = std::vector<std::size_t>;  // of buffers

  static constexpr Key kLargestFirst[] = {Key::kSize};

  // Each search begins with the best plan so far. A search learns weights of buffers, so a long one
  // finds more than several short ones. Few buffers need no long one.
  void Search(budget::Budget& whole) {
    constexpr std::int64_t kLeastSteps = 1500;
    constexpr std::int64_t kStepsOfABuffer = 8;
    constexpr std::uint64_t kMostTries = 8;
    constexpr std::int64_t kTenures[] = {10, 3};
    constexpr double kSizePower = 0.1;
    const auto buffers = static_cast<std::int64_t>(std::max<std::size_t>(buffers_.size(), 1));
    auto left = static_cast<std::int64_t>(options_.work / static_cast<double>(buffers));
    std::int64_t least_unplaced = std::numeric_limits<std::int64_t>::max();
    for (std::uint64_t tries = 0; tries < kMostTries && left > 0 && !IsEnough(); ++tries) {
      const std::int64_t steps = std::min(left, std::max(kLeastSteps, kStepsOfABuffer * buffers));
      const std::int64_t tenure = kTenures[tries % std::size(kTenures)];
      budget::Budget budget(whole, static_cast<double>(steps));
      FullestPlan fullest = SearchByEjection(instance_, capacity_, best_,
                                             {.tenure = tenure,
                                              .tenure_spread = tenure - 1,
                                              .size_power = kSizePower,
                                              .seed = options_.seed + tries},
                                             budget);
      left -= steps;
      if (GoesOn() && fullest.unplaced_size > least_unplaced) continue;
      least_unplaced = fullest.unplaced_size;
      CompleteByFirstFit(instance_, order_, fullest.offsets);
      if (GoesOn() || HeightOf(fullest.offsets) < HeightOf(best_)) {
        best_ = std::move(fullest.offsets);
      }
      if (whole.HasEnded()) break;
    }
  }

  std::int64_t SizeOf(std::size_t buffer) const {
    return AlignUp(buffers_[buffer].bytes, options_.alignment) / options_.alignment;
  }
  bool GoesOn() const { return !options_.start_offsets.empty(); }

  // Stacks the buffers that are always there, and those that are gone before another comes and
  // come back once: weights that never leave, and gradients. Those that come back last lie on top,
  // so that once they have left the stack only grows.
  void Stack() {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
    for (const LivingBuffer& buffer : buffers_) {
      begin = std::min(begin, buffer.lives.front().lower);
      end = std::max(end, buffer.lives.back().upper);
    }
    std::int64_t first_coming = end;
    for (const LivingBuffer& buffer : buffers_) {
      const std::int64_t lower = buffer.lives.front().lower;
      if (lower > begin) first_coming = std::min(first_coming, lower);
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const Lives& lives = buffers_[i].lives;
      const bool is_at_ends = lives.front().lower == begin && lives.back().upper == end;
      const bool is_gone_first = lives.size() == 2 && lives.front().upper <= first_coming;
      const bool is_stacked = is_at_ends && (lives.size() == 1 || is_gone_first);
      (is_stacked ? stack_ : above_).push_back(i);
    }
    const auto last_begin = [&](std::size_t i) { return buffers_[i].lives.back().lower; };
    std::stable_sort(stack_.begin(), stack_.end(),
                     [&](std::size_t a, std::size_t b) { return last_begin(a) < last_begin(b); });
    std::int64_t top = 0;
    for (const std::size_t i : stack_) {
      stacked_[i] = top;
      top += SizeOf(i);
    }
  }

  // Finds the offset from which on each buffer is free of stacked ones.
  void FindFloors() {
    instance_.floor.assign(above_.size(), 0);
    for (std::size_t k = 0; k < above_.size(); ++k) {
      const Lives& lives = buffers_[above_[k]].lives;
      const auto highest = std::find_if(stack_.rbegin(), stack_.rend(), [&](std::size_t stacked) {
        return Overlap(buffers_[stacked].lives, lives);
      });
      if (highest != stack_.rend()) instance_.floor[k] = stacked_[*highest] + SizeOf(*highest);
    }
  }

  // Takes the offsets of the plan near by that are free.
  void BeginNear() {
    PlacedLists placed(instance_, best_, PlacedLists::Sorted::kByOffset);
    for (const std::int32_t k : order_) {
      const std::int64_t near = options_.start_offsets[above_[k]];
      const std::int64_t offset = near / options_.alignment;
      const bool is_inside =
          near >= 0 && offset >= instance_.floor[k] && offset + instance_.size[k] <= capacity_;
      if (!is_inside || !IsFree(instance_, placed, k, offset)) continue;
      best_[k] = offset;
      placed.Insert(k, offset);
    }
  }

  // Whether each buffer fits above its floor, and no moment needs more than the capacity.
  bool CanFit() const {
    Numbers all(buffers_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (ToInstance(buffers_, all, options_.alignment).lower_bound > capacity_) return false;
    for (std::int32_t k = 0; k < instance_.count(); ++k) {
      if (instance_.floor[k] + instance_.size[k] > capacity_) return false;
    }
    return true;
  }

  bool IsEnough() const { return HeightOf(best_) <= options_.capacity; }

  // Returns the bytes that the stack and the buffers above it need.
  std::int64_t HeightOf(const Offsets& offsets) const {
    std::int64_t height = 0;
    for (const std::size_t i : stack_) {
      height = std::max(height, stacked_[i] * options_.alignment + buffers_[i].bytes);
    }
    for (std::size_t k = 0; k < above_.size(); ++k) {
      height = std::max(height, offsets[k] * options_.alignment + buffers_[above_[k]].bytes);
    }
    return height;
  }

  const std::vector<LivingBuffer>& buffers_;
  const LivesOptions& options_;
  const std::int64_t capacity_;
  Numbers stack_;                    // from the bottom up
  Offsets stacked_;                  // by buffer: its offset in the stack
  Numbers above_;                    // all other buffers
  Instance instance_;                // of these
  std::vector<std::int32_t> order_;  // of these: the largest first
  Offsets best_;                     // of these
};

}  // namespace

void Join(Lives& lives) {
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

Plan PlanLives(const std::vector<LivingBuffer>& buffers, const LivesOptions& options,
               budget::Budget& whole) {
  return LivesPlanner(buffers, options).Make(whole);
}

}  // namespace tidepool::plan
