// SPDX-License-Identifier: Apache-2.0
// WorkBudget: an amount of work, with a limit on time and a way to stop. The work ends first on a
// machine that is not slow, so that results do not depend on the clock.
#ifndef TIDEPOOL_POLICIES_TRAINING_TRANSFERS_WORK_BUDGET_H_
#define TIDEPOOL_POLICIES_TRAINING_TRANSFERS_WORK_BUDGET_H_

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <utility>

namespace tidepool::transfers {

// The work that a search may do in the seconds that it has: operations and absences of iterations
// that are tried.
constexpr double WorkOf(double seconds) { return 12e6 * seconds; }

class WorkBudget {
 public:
  // The clock runs from now on.
  WorkBudget(double work, double seconds, std::stop_token stop)
      : left_(work),
        stop_(std::move(stop)),
        end_(std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)) {}

  // Takes some work from the budget. Returns false when nothing is left, and after a stop.
  bool Take(std::size_t work) {
    left_ -= static_cast<double>(work);
    if (left_ <= 0 || stop_.stop_requested()) return false;
    is_late_ = std::chrono::steady_clock::now() >= end_;
    return !is_late_;
  }
  // Whether the clock ended it with work left.
  bool is_late() const { return is_late_; }

 private:
  double left_;
  bool is_late_ = false;
  std::stop_token stop_;
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRAINING_TRANSFERS_WORK_BUDGET_H_
