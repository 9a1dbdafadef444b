// SPDX-License-Identifier: Apache-2.0
// The search for a low plan of one instance: heuristics first, then rounds of exact and ejection
// searches. Each round is longer than the one before, until the height equals a proved lower bound.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_MINIMIZER_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_MINIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/budget/budget.h"
#include "lib/memory/plan/exact_search.h"
#include "lib/memory/plan/instance.h"
#include "lib/memory/plan/skyline.h"

namespace tidepool::plan {

// All heights are in the instance's units. Not thread-safe.
class Minimizer {
 public:
  // Makes the first plan. The instance and the budget must outlive the minimizer.
  Minimizer(const Instance& instance, std::uint64_t seed, budget::Budget& whole);

  // Takes another plan of the instance, if it is lower.
  void Take(Offsets offsets);
  // Makes plans by the other heuristics until one is no higher than `enough`.
  void TryHeuristics(std::int64_t enough);
  // Searches for lower plans, down to `enough`, longer in each round. Returns false when the search
  // has given up for good.
  bool SearchRound(std::int64_t enough);

  const Offsets& offsets() const { return best_; }
  std::int64_t height() const { return height_; }
  // Returns a proved lower bound of all heights.
  std::int64_t lower_bound() const { return lower_bound_; }
  const Instance& instance() const { return instance_; }

 private:
  std::int64_t Goal(std::int64_t enough) const;
  bool IsDone(std::int64_t enough) { return height_ <= Goal(enough) || whole_.HasEnded(); }
  void TryFirstFit(std::int64_t enough);
  // Returns whether a plan of `capacity` was found.
  bool TryExact(ExactSearch& search, std::int64_t capacity, std::span<const Key> keys);
  bool IsForFirstFit() const;
  // Places buffers again in the order of their offsets, which fills holes.
  void Settle();
  // Searches by orders of first-fit, only among obstacles or streams.
  bool TryOrders(std::int64_t capacity);
  bool TryEjection(std::int64_t capacity);
  void SearchBetween(std::int64_t enough);
  void SearchAt(std::int64_t enough);

  const Instance& instance_;
  const std::uint64_t seed_;
  budget::Budget& whole_;
  ExactSearch at_goal_;  // separate, because weights learned at a capacity mislead at another
  ExactSearch between_;
  SkylinePlanner skyline_;
  Offsets best_;
  std::int64_t height_ = 0;
  std::int64_t lower_bound_;
  std::uint64_t round_ = 0;
  double steps_;             // of the exact search; the ejection search takes fewer
  double descent_;           // the share of the way down to the goal that is tried next
  std::uint64_t tries_ = 0;  // of the ejection search
  std::uint64_t order_tries_ = 0;
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_MINIMIZER_H_
