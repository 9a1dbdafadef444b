// SPDX-License-Identifier: Apache-2.0
// Budget: the end of a search, by an amount of work, a time limit or a stop.
//
// Work is counted, so a search that ends with its work has the same answer on every machine. The
// time limit is for a machine that is slower than expected.
#ifndef TIDEPOOL_LIB_BASE_BUDGET_BUDGET_H_
#define TIDEPOOL_LIB_BASE_BUDGET_BUDGET_H_

#include <chrono>
#include <limits>
#include <stop_token>

namespace tidepool::budget {

// The clock runs from the construction on. Not thread-safe.
class Budget {
 public:
  static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

  // Never ends.
  Budget() = default;
  // Ends by the clock or a stop alone.
  Budget(double seconds, std::stop_token stop);
  // `work` is in units of the caller.
  Budget(double work, double seconds, std::stop_token stop);
  // A part of `whole`, which outlives it: with work of its own, until the end of the whole or the
  // time limit of the part, whichever comes first. The whole notes the end of the part by the clock
  // or a stop.
  Budget(Budget& whole, double work, double seconds = kUnlimited);

  // Takes some work. Returns false if less was left, or the clock or a stop has ended the budget.
  // Looks at them at the first call, and after 16 units of work or more.
  bool Take(double work = 1) {
    left_ -= work;
    if (left_ < 0) return false;
    until_look_ -= work;
    if (until_look_ > 0) return true;
    until_look_ = kWorkPerLook;
    if (HasEnded()) left_ = -1;
    return left_ >= 0;
  }
  // Returns the work that is left, 0 or more.
  double work_left() const { return left_ > 0 ? left_ : 0; }

  // Whether the clock or a stop has ended the budget. Work does not matter.
  bool HasEnded();
  // Returns the rest of the time limit; 0 after a stop.
  double SecondsLeft();

  // Whether HasEnded, of this budget or of a part, has seen the clock or a stop as the end.
  bool timed_out() const { return timed_out_; }
  bool is_stopped() const { return is_stopped_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  using Time = std::chrono::time_point<Clock, Seconds>;
  static constexpr double kWorkPerLook = 16;  // a step takes more than 0.1 us, a look 30 ns

  double left_ = kUnlimited;
  double until_look_ = 1;
  Time end_ = Time(Seconds(kUnlimited));
  std::stop_token stop_;
  Budget* whole_ = nullptr;
  bool timed_out_ = false;
  bool is_stopped_ = false;
};

}  // namespace tidepool::budget

#endif  // TIDEPOOL_LIB_BASE_BUDGET_BUDGET_H_
