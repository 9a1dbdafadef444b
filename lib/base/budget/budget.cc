// SPDX-License-Identifier: Apache-2.0
#include "lib/base/budget/budget.h"

#include <algorithm>
#include <utility>

namespace tidepool::budget {

Budget::Budget(double seconds, std::stop_token stop)
    : Budget(kUnlimited, seconds, std::move(stop)) {}

Budget::Budget(double work, double seconds, std::stop_token stop)
    : left_(work), end_(Clock::now() + Seconds(seconds)), stop_(std::move(stop)) {}

Budget::Budget(Budget& whole, double work, double seconds)
    : left_(work), end_(whole.end_), stop_(whole.stop_), whole_(&whole) {
  if (seconds < kUnlimited) end_ = std::min(end_, Time(Clock::now() + Seconds(seconds)));
}

bool Budget::HasEnded() {
  const bool is_stopped = stop_.stop_requested();
  const bool is_late = end_ < Time(Seconds(kUnlimited)) && Clock::now() >= end_;
  if (!is_stopped && !is_late) return false;
  for (Budget* budget = this; budget != nullptr; budget = budget->whole_) {
    budget->is_stopped_ = budget->is_stopped_ || is_stopped;
    budget->timed_out_ = budget->timed_out_ || is_late;
  }
  return true;
}

double Budget::SecondsLeft() {
  return HasEnded() ? 0 : std::max(Seconds(end_ - Clock::now()).count(), 0.0);
}

}  // namespace tidepool::budget
