// SPDX-License-Identifier: Apache-2.0
// A channel that divides its rate equally among the copies in progress. Not thread-safe.
//
// Each copy brings its work: the seconds that it takes alone. The channel counts the work that each
// copy has done since the channel was last empty ("virtual time" of fair queueing: Parekh and
// Gallager, IEEE/ACM Transactions on Networking 1, 1993). A copy that joins at a count of v with
// work w ends at v + w, however many others join or leave. So an event takes O(log copies).
#ifndef TIDEPOOL_LIB_TRAINING_SIMULATE_FLUID_CHANNEL_H_
#define TIDEPOOL_LIB_TRAINING_SIMULATE_FLUID_CHANNEL_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace tidepool::simulate {

class FluidChannel {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Returns the time at which the next copy ends; kNever without copies.
  double NextEnd() const {
    if (copies_.empty()) return kNever;
    const double left = copies_.top().first - done_;
    return now_ + left * static_cast<double>(copies_.size());
  }

  // Begins a copy; `now` is not after NextEnd().
  void Join(double now, double work, std::uint32_t operation) {
    if (copies_.empty()) {
      done_ = 0;
    } else {
      done_ += (now - now_) / static_cast<double>(copies_.size());
    }
    now_ = now;
    copies_.emplace(done_ + work, operation);
  }

  // Ends the copies that end at NextEnd() and calls `visit` with the operation of each.
  template <typename Visit>
  void EndNext(const Visit& visit) {
    now_ = NextEnd();
    done_ = copies_.top().first;
    while (!copies_.empty() && copies_.top().first == done_) {
      const std::uint32_t operation = copies_.top().second;
      copies_.pop();
      visit(operation);
    }
  }

 private:
  using Copy = std::pair<double, std::uint32_t>;  // the count at its end, and its operation

  double now_ = 0;
  double done_ = 0;
  std::priority_queue<Copy, std::vector<Copy>, std::greater<>> copies_;
};

}  // namespace tidepool::simulate

#endif  // TIDEPOOL_LIB_TRAINING_SIMULATE_FLUID_CHANNEL_H_
