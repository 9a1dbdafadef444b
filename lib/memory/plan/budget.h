// SPDX-License-Identifier: Apache-2.0
// Limits of a search: a number of steps, equal on every machine, and a deadline by the clock or a
// stop.
#ifndef TIDEPOOL_LIB_MEMORY_PLAN_BUDGET_H_
#define TIDEPOOL_LIB_MEMORY_PLAN_BUDGET_H_

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <utility>

namespace tidepool::plan {

// The end of all searches of a plan. Not thread-safe.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  Deadline(double seconds, std::stop_token stop)
      : stop_(std::move(stop)), has_end_(seconds < kForever), end_(Clock::now()) {
    if (has_end_) {
      end_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }
  }

  bool HasPassed() {
    if (stop_.stop_requested()) is_stopped_ = true;
    if (has_end_ && !timed_out_ && Clock::now() >= end_) timed_out_ = true;
    return is_stopped_ || timed_out_;
  }
  // Return the results of HasPassed.
  bool timed_out() const { return timed_out_; }
  bool is_stopped() const { return is_stopped_; }

 private:
  static constexpr double kForever = 1e8;  // years; beyond it, the clock would overflow

  std::stop_token stop_;
  bool has_end_;
  Clock::time_point end_;
  bool timed_out_ = false;
  bool is_stopped_ = false;
};

// The number of steps that one search may take.
class Budget {
 public:
  Budget(Deadline& deadline, std::int64_t steps) : deadline_(deadline), left_(steps) {}

  // Takes a step. Returns false once no step is left or the deadline has passed.
  bool Step() {
    if (left_ <= 0) return false;
    --left_;
    if (--until_look_ > 0) return true;
    until_look_ = kStepsPerLook;
    if (deadline_.HasPassed()) left_ = 0;
    return left_ > 0;
  }
  bool IsSpent() const { return left_ <= 0; }
  std::int64_t left() const { return left_; }

 private:
  static constexpr int kStepsPerLook = 16;  // a step takes more than 0.1 us, a look 30 ns

  Deadline& deadline_;
  std::int64_t left_;
  int until_look_ = 1;
};

}  // namespace tidepool::plan

#endif  // TIDEPOOL_LIB_MEMORY_PLAN_BUDGET_H_
