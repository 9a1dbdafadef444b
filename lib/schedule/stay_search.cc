// SPDX-License-Identifier: Apache-2.0
// All sizes and offsets are counted in units of the alignment.
#include "lib/schedule/stay_search.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "lib/plan/instance.h"

namespace tidepool::schedule {
namespace {

using plan::Offsets;
using Numbers = std::vector<std::size_t>;  // of stays

constexpr std::int64_t kUnplaced = -1;

bool IsLargerThan(std::int64_t a_size, std::size_t a, std::int64_t b_size, std::size_t b) {
  return a_size != b_size ? a_size > b_size : a < b;
}

// From the first life of a stay to its last.
struct Span {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  bool has_one_life = false;

  bool Meets(const Span& other) const {
    return (static_cast<int>(lower < other.upper) & static_cast<int>(other.lower < upper)) != 0;
  }
};

// The stays, and the offset from which on each is free of stacked ones.
struct Problem {
  const std::vector<LivingStay>& stays;
  std::vector<Span> spans;           // by stay
  std::vector<std::int64_t> sizes;   // by stay
  std::vector<std::int64_t> floors;  // by stay
  Numbers above;                     // the stays that are not stacked, the largest first

  bool Overlap(std::size_t a, std::size_t b) const {
    if (!spans[a].Meets(spans[b])) return false;
    if (spans[a].has_one_life && spans[b].has_one_life) return true;
    const std::vector<Life>& one = stays[a].lives;
    const std::vector<Life>& other = stays[b].lives;
    for (std::size_t i = 0, j = 0; i < one.size() && j < other.size();) {
      if (one[i].upper <= other[j].lower) {
        ++i;
      } else if (other[j].upper <= one[i].lower) {
        ++j;
      } else {
        return true;
      }
    }
    return false;
  }
};

// Stays with offsets.
class PlacedStays {
 public:
  struct Entry {
    std::int64_t offset = 0;
    std::int64_t top = 0;
    std::size_t stay = 0;

    static bool IsLower(const Entry& a, const Entry& b) {
      return a.offset != b.offset ? a.offset < b.offset : a.stay < b.stay;
    }
    static bool EndsLower(const Entry& a, const Entry& b) {
      return a.top != b.top ? a.top < b.top : a.stay < b.stay;
    }
  };
  using Entries = std::vector<Entry>;

  explicit PlacedStays(const Problem& problem) : problem_(problem) {}

  void Insert(std::size_t stay, std::int64_t offset) {
    const Entry entry = EntryOf(stay, offset);
    by_offset_.insert(std::upper_bound(by_offset_.begin(), by_offset_.end(), entry, Entry::IsLower),
                      entry);
    by_top_.insert(std::upper_bound(by_top_.begin(), by_top_.end(), entry, Entry::EndsLower),
                   entry);
  }
  void Remove(std::size_t stay, std::int64_t offset) {
    const Entry entry = EntryOf(stay, offset);
    by_offset_.erase(std::lower_bound(by_offset_.begin(), by_offset_.end(), entry, Entry::IsLower));
    by_top_.erase(std::lower_bound(by_top_.begin(), by_top_.end(), entry, Entry::EndsLower));
  }

  bool IsFree(std::size_t stay, std::int64_t offset) const {
    return std::none_of(by_offset_.begin(), by_offset_.end(), [&](const Entry& entry) {
      return entry.offset < offset + problem_.sizes[stay] && entry.top > offset &&
             problem_.Overlap(entry.stay, stay);
    });
  }

  // Returns the lowest offset at which a stay is free.
  std::int64_t FirstFit(std::size_t stay) const {
    std::int64_t offset = problem_.floors[stay];
    for (const Entry& entry : by_offset_) {
      if (entry.offset >= offset + problem_.sizes[stay]) break;
      if (entry.top > offset && problem_.Overlap(entry.stay, stay)) offset = entry.top;
    }
    return offset;
  }

  // Writes the entries above its floor that a stay overlaps in time, by offset and by top.
  void FindAround(std::size_t stay, Entries& by_offset, Entries& by_top) const {
    Find(stay, by_offset_, by_offset);
    Find(stay, by_top_, by_top);
  }

 private:
  Entry EntryOf(std::size_t stay, std::int64_t offset) const {
    return {offset, offset + problem_.sizes[stay], stay};
  }

  // Few entries are left after the first loop, which has no branches that a processor could not
  // predict.
  void Find(std::size_t stay, const Entries& entries, Entries& around) const {
    const Span& span = problem_.spans[stay];
    const std::int64_t floor = problem_.floors[stay];
    std::size_t count = 0;
    around.resize(entries.size());
    for (const Entry& entry : entries) {
      around[count] = entry;
      count += static_cast<std::size_t>(entry.top > floor) &
               static_cast<std::size_t>(problem_.spans[entry.stay].Meets(span));
    }
    around.resize(count);
    std::erase_if(around, [&](const Entry& entry) { return !problem_.Overlap(entry.stay, stay); });
  }

  const Problem& problem_;
  Entries by_offset_;
  Entries by_top_;
};

// One try of the ejection search.
class Ejection {
 public:
  // Begins with the offsets of a plan that keep to the capacity.
  Ejection(const Problem& problem, std::int64_t capacity, Offsets offsets, std::uint64_t seed,
           std::int64_t tenure)
      : problem_(problem),
        capacity_(capacity),
        tenure_(tenure),
        offsets_(std::move(offsets)),
        placed_(problem),
        weights_(offsets_.size(), 1),
        recent_until_(offsets_.size()),
        random_(seed) {
    for (const std::size_t stay : problem.above) {
      if (offsets_[stay] + problem.sizes[stay] > capacity) {
        Leave(stay);
      } else {
        placed_.Insert(stay, offsets_[stay]);
      }
    }
    Note();
  }

  void Run(plan::Budget& budget) {
    while (!unplaced_.empty() && budget.Step()) {
      ++step_;
      PlaceCheapest(TakeUnplaced());
      Note();
    }
  }

  // Returns the offsets with the fewest bytes unplaced; those stays have none.
  const Offsets& fullest() const { return fullest_; }
  std::int64_t least_unplaced() const { return least_unplaced_; }

 private:
  using Entry = PlacedStays::Entry;
  static constexpr double kRecentFactor = 1.5;
  static constexpr std::uint64_t kAnyUnplacedOneIn = 4;  // instead of the largest one

  double Cost(std::size_t stay) const {
    return recent_until_[stay] > step_ ? weights_[stay] * kRecentFactor : weights_[stay];
  }

  void Leave(std::size_t stay) {
    offsets_[stay] = kUnplaced;
    unplaced_.push_back(stay);
    unplaced_size_ += problem_.sizes[stay];
  }

  void Note() {
    if (unplaced_size_ >= least_unplaced_) return;
    least_unplaced_ = unplaced_size_;
    fullest_ = offsets_;
  }

  std::size_t TakeUnplaced() {
    std::size_t taken = 0;
    if (random_() % kAnyUnplacedOneIn == 0) {
      taken = random_() % unplaced_.size();
    } else {
      for (std::size_t i = 1; i < unplaced_.size(); ++i) {
        const std::size_t stay = unplaced_[i];
        const std::size_t best = unplaced_[taken];
        if (IsLargerThan(problem_.sizes[stay], stay, problem_.sizes[best], best)) taken = i;
      }
    }
    std::swap(unplaced_[taken], unplaced_.back());
    const std::size_t stay = unplaced_.back();
    unplaced_.pop_back();
    unplaced_size_ -= problem_.sizes[stay];
    return stay;
  }

  void PlaceCheapest(std::size_t stay) {
    placed_.FindAround(stay, around_, by_top_);
    const std::int64_t offset = CheapestOffset(stay);
    const std::int64_t top = offset + problem_.sizes[stay];
    bool ejects = false;
    for (const Entry& entry : around_) {
      if (entry.offset >= top || entry.top <= offset) continue;
      ejects = true;
      placed_.Remove(entry.stay, entry.offset);
      Leave(entry.stay);
    }
    if (ejects) weights_[stay] += 1;
    offsets_[stay] = offset;
    placed_.Insert(stay, offset);
    recent_until_[stay] =
        step_ + tenure_ +
        static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(tenure_));
  }

  // Returns the offset at which the stays in the way weigh least, by a sweep up the addresses.
  // Each of several equal ones is equally likely.
  std::int64_t CheapestOffset(std::size_t stay) {
    const std::int64_t size = problem_.sizes[stay];
    const std::int64_t end = capacity_ - size + 1;
    auto reached = around_.begin();
    auto passed = by_top_.begin();
    double cost = 0;
    double least = std::numeric_limits<double>::infinity();
    std::uint64_t ties = 0;
    std::int64_t cheapest = problem_.floors[stay];
    for (std::int64_t from = cheapest; from < end && least > 0;) {
      for (; reached != around_.end() && reached->offset - size < from; ++reached) {
        cost += Cost(reached->stay);
      }
      for (; passed != by_top_.end() && passed->top <= from; ++passed) cost -= Cost(passed->stay);
      if (reached - around_.begin() == passed - by_top_.begin()) cost = 0;  // no rounding error
      std::int64_t next = end;
      if (reached != around_.end()) next = std::min(next, reached->offset - size + 1);
      if (passed != by_top_.end()) next = std::min(next, passed->top);
      if (cost < least) ties = 0;
      if (cost <= least && random_() % ++ties == 0) {
        cheapest = cost > 0 && random_() % 2 == 0 ? next - 1 : from;
      }
      least = std::min(least, cost);
      from = next;
    }
    return cheapest;
  }

  const Problem& problem_;
  const std::int64_t capacity_;
  const std::int64_t tenure_;  // a stay is recent for so many to twice as many steps
  Offsets offsets_;
  PlacedStays placed_;
  std::vector<double> weights_;
  std::vector<std::int64_t> recent_until_;
  std::mt19937_64 random_;
  std::int64_t step_ = 0;
  Numbers unplaced_;
  std::int64_t unplaced_size_ = 0;
  std::int64_t least_unplaced_ = std::numeric_limits<std::int64_t>::max();
  Offsets fullest_;
  PlacedStays::Entries around_;  // of one step
  PlacedStays::Entries by_top_;
};

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

  Plan Make(plan::Deadline& deadline) {
    auto left = static_cast<std::int64_t>(
        options_.work / static_cast<double>(std::max<std::size_t>(best_.size(), 1)));
    if (IsEnough() || !CanFit()) left = 0;
    std::int64_t least_unplaced = std::numeric_limits<std::int64_t>::max();
    for (std::uint64_t tries = 0; tries < kMostTries && left > 0; ++tries) {
      const std::int64_t steps = std::min(left, kStepsOfATry);
      plan::Budget budget(deadline, steps);
      Ejection ejection(problem_, capacity_, best_, options_.seed + tries,
                        kTenures[tries % std::size(kTenures)]);
      ejection.Run(budget);
      left -= steps;
      if (GoesOn() && ejection.least_unplaced() > least_unplaced) continue;
      least_unplaced = ejection.least_unplaced();
      Offsets found = Complete(ejection.fullest());
      if (GoesOn() || Height(found) < Height(best_)) best_ = std::move(found);
      if (IsEnough() || deadline.HasPassed()) break;
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
  // on top, so that the memory below other stays grows like a stair.
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
    std::sort(problem_.above.begin(), problem_.above.end(), [&](std::size_t a, std::size_t b) {
      return IsLargerThan(problem_.sizes[a], a, problem_.sizes[b], b);
    });
    best_.assign(stays().size(), kUnplaced);
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
      if (offsets[stay] != kUnplaced) placed.Insert(stay, offsets[stay]);
    }
    for (const std::size_t stay : problem_.above) {
      if (offsets[stay] != kUnplaced) continue;
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
  Problem problem_;
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
               plan::Deadline& deadline) {
  return LivesPlanner(stays, options).Make(deadline);
}

}  // namespace tidepool::schedule
