// SPDX-License-Identifier: Apache-2.0
#include "lib/training/schedule/stay_ejection.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "lib/training/schedule/placed_stays.h"

namespace tidepool::schedule {
namespace {

using plan::Offsets;

// One try of the ejection search.
class StayEjection {
 public:
  // Takes the offsets that keep to the capacity.
  StayEjection(const StayProblem& problem, const Offsets& start, const StayEjectionOptions& options)
      : problem_(problem),
        capacity_(options.capacity),
        tenure_(options.tenure),
        offsets_(start),
        placed_(problem),
        weights_(offsets_.size(), 1),
        recent_until_(offsets_.size()),
        random_(options.seed) {
    for (const std::size_t stay : problem.above) {
      if (offsets_[stay] + problem.sizes[stay] > capacity_) {
        Leave(stay);
      } else {
        placed_.Insert(stay, offsets_[stay]);
      }
    }
    Note();
  }

  FullestStays Run(budget::Budget& budget) {
    while (!unplaced_.empty() && budget.Take()) {
      ++step_;
      PlaceCheapest(TakeUnplaced());
      Note();
    }
    return fullest_;
  }

 private:
  using Entry = PlacedStays::Entry;
  static constexpr double kRecentFactor = 1.5;
  static constexpr std::uint64_t kAnyUnplacedOneIn = 4;  // instead of the largest one

  double Cost(std::size_t stay) const {
    return recent_until_[stay] > step_ ? weights_[stay] * kRecentFactor : weights_[stay];
  }

  void Leave(std::size_t stay) {
    offsets_[stay] = kUnplacedStay;
    unplaced_.push_back(stay);
    unplaced_size_ += problem_.sizes[stay];
  }

  void Note() {
    if (unplaced_size_ < fullest_.unplaced_size) fullest_ = {offsets_, unplaced_size_};
  }

  std::size_t TakeUnplaced() {
    std::size_t taken = 0;
    if (random_() % kAnyUnplacedOneIn == 0) {
      taken = random_() % unplaced_.size();
    } else {
      for (std::size_t i = 1; i < unplaced_.size(); ++i) {
        if (problem_.IsLargerThan(unplaced_[i], unplaced_[taken])) taken = i;
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

  const StayProblem& problem_;
  const std::int64_t capacity_;
  const std::int64_t tenure_;
  Offsets offsets_;
  PlacedStays placed_;
  std::vector<double> weights_;
  std::vector<std::int64_t> recent_until_;
  std::mt19937_64 random_;
  std::int64_t step_ = 0;
  std::vector<std::size_t> unplaced_;
  std::int64_t unplaced_size_ = 0;
  FullestStays fullest_ = {{}, std::numeric_limits<std::int64_t>::max()};
  PlacedStays::Entries around_;  // of one step
  PlacedStays::Entries by_top_;
};

}  // namespace

FullestStays EjectStays(const StayProblem& problem, const Offsets& start,
                        const StayEjectionOptions& options, budget::Budget& budget) {
  return StayEjection(problem, start, options).Run(budget);
}

}  // namespace tidepool::schedule
