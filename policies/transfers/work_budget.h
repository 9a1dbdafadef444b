// SPDX-License-Identifier: Apache-2.0
// WorkBudget: an amount of work, with a limit on time. The work is the first to end on a machine
// that is not slow, so that results do not depend on the clock.
#ifndef TIDEPOOL_POLICIES_TRANSFERS_WORK_BUDGET_H_
#define TIDEPOOL_POLICIES_TRANSFERS_WORK_BUDGET_H_

#include <chrono>
#include <cstddef>

namespace tidepool::transfers {

class WorkBudget {
 public:
  explicit WorkBudget(double seconds)
      : left_(seconds * kWorkPerSecond),
        end_(std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)) {}

  // Takes some work from the budget. Returns false when nothing is left.
  bool Take(std::size_t work) {
    left_ -= static_cast<double>(work);
    return left_ > 0 && std::chrono::steady_clock::now() < end_;
  }

 private:
  // Operations and gaps of iterations that are tried. A core of 2020 tries twice as many.
  static constexpr double kWorkPerSecond = 6e6;

  double left_;
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};

}  // namespace tidepool::transfers

#endif  // TIDEPOOL_POLICIES_TRANSFERS_WORK_BUDGET_H_
