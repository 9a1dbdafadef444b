// SPDX-License-Identifier: Apache-2.0
// SearchEnd: the moment at which a search has to answer with its best schedule so far.
#ifndef TIDEPOOL_POLICIES_TRAINING_CHAIN_SEARCH_END_H_
#define TIDEPOOL_POLICIES_TRAINING_CHAIN_SEARCH_END_H_

#include <chrono>
#include <limits>
#include <stop_token>
#include <utility>

namespace tidepool::chain_policies {

class SearchEnd {
 public:
  // Never comes.
  SearchEnd() = default;
  // Comes `seconds` from now on, or at a stop if that is earlier.
  SearchEnd(std::stop_token stop, double seconds)
      : stop_(std::move(stop)), end_(Clock::now() + Seconds(seconds)) {}

  bool HasCome() const { return stop_.stop_requested() || Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  std::stop_token stop_;
  std::chrono::time_point<Clock, Seconds> end_{Seconds(std::numeric_limits<double>::infinity())};
};

}  // namespace tidepool::chain_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_CHAIN_SEARCH_END_H_
