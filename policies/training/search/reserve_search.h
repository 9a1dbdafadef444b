// SPDX-License-Identifier: Apache-2.0
// ReserveSearch: how much memory an iteration leaves free, so that a plan of its addresses fits.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_RESERVE_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_RESERVE_SEARCH_H_

#include <algorithm>
#include <cstdint>

namespace tidepool::search {

// Looks for the least reserve with a plan that fits. Heights of plans tell how much is missing, and
// halves narrow the range down. Whether a plan fits is not monotonic in the reserve, since other
// data leaves at each, so the result of the bisection is approximate.
class ReserveSearch {
 public:
  explicit ReserveSearch(std::int64_t memory_bytes, std::int64_t first = 0)
      : memory_(memory_bytes), next_(first) {}

  // Returns the reserve to try next, in bytes.
  std::int64_t next() const { return next_; }

  // The plan with the last reserve exceeds the memory.
  void Exceeds(std::int64_t height) {
    low_ = next_;
    const std::int64_t missing = height - memory_;
    next_ += std::max(missing - missing / 3, step_);
    step_ *= 2;
    if (high_ >= 0) next_ = std::min(next_, Middle());
  }

  // The last reserve was enough, or too much to be of use.
  void Suffices() {
    high_ = next_;
    // Whether a plan fits is not monotonic, so smaller ones than the last are tried again.
    if (high_ - low_ < memory_ / kLeastPart) low_ /= 2;
    next_ = Middle();
  }

 private:
  static constexpr std::int64_t kLeastPart = 512;
  static constexpr std::int64_t kPartOfStep = 128;

  std::int64_t Middle() const { return low_ + (high_ - low_) / 2; }

  const std::int64_t memory_;
  std::int64_t next_;
  std::int64_t step_ = memory_ / kPartOfStep;  // the least one to the next larger reserve
  std::int64_t low_ = 0;                       // too little
  std::int64_t high_ = -1;                     // enough; -1: none so far
};

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_RESERVE_SEARCH_H_
