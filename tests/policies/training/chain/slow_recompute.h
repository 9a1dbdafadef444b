// SPDX-License-Identifier: Apache-2.0
// A slow and obvious search for the fastest recomputation: every state, every action.
#ifndef TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SLOW_RECOMPUTE_H_
#define TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SLOW_RECOMPUTE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "tidepool/training/chain.h"

namespace tidepool::testing {

// The bytes of each activation on the device, and how many backward operations are left. -1: the
// activation is not there.
struct SlowState {
  std::vector<std::int64_t> held;
  std::size_t left = 0;

  auto Key() const { return std::make_pair(held, left); }
};

class SlowRecompute {
 public:
  explicit SlowRecompute(const Chain& chain) : chain_(chain) {}

  // Returns the least seconds; infinite when the chain does not fit.
  double Seconds() {
    SlowState first{std::vector<std::int64_t>(chain_.x.size(), -1), chain_.forward_seconds.size()};
    first.held[0] = chain_.x[0];
    Reach(first, 0);
    while (!queue_.empty()) {
      const auto [seconds, key] = *queue_.begin();
      queue_.erase(queue_.begin());
      if (key.second == 0) return seconds;
      Expand({key.first, key.second}, seconds);
    }
    return std::numeric_limits<double>::infinity();
  }

 private:
  using Key = std::pair<std::vector<std::int64_t>, std::size_t>;

  void Reach(const SlowState& state, double seconds) {
    const auto [best, is_new] = best_.try_emplace(state.Key(), seconds);
    if (!is_new) {
      if (best->second <= seconds) return;
      queue_.erase({best->second, state.Key()});
      best->second = seconds;
    }
    queue_.insert({seconds, state.Key()});
  }

  std::int64_t Used(const SlowState& state) const {
    std::int64_t used = state.left == chain_.forward_seconds.size() ? 0 : chain_.y[state.left];
    for (const std::int64_t bytes : state.held) used += bytes > 0 ? bytes : 0;
    return used;
  }

  void Expand(const SlowState& state, double seconds) {
    const std::int64_t memory = chain_.memory_bytes;
    for (std::size_t i = 1; i < state.held.size(); ++i) {
      if (state.held[i] < 0 || RunsOnce(i - 1)) continue;
      SlowState next = state;
      next.held[i] = -1;
      Reach(next, seconds);
    }
    for (std::size_t i = 0; i < state.left; ++i) {
      if (state.held[i] < 0) continue;
      for (const bool all : {true, false}) {
        if (!all && (chain_.output.empty() || RunsOnce(i))) continue;
        SlowState next = state;
        next.held[i + 1] = all ? chain_.x[i + 1] : chain_.output[i + 1];
        if (next.held[i + 1] <= state.held[i + 1]) continue;
        const auto& extra =
            all || chain_.output_extra.empty() ? chain_.forward_extra : chain_.output_extra;
        if (Used(next) + extra[i] <= memory) Reach(next, seconds + chain_.forward_seconds[i]);
      }
    }
    const std::size_t i = state.left - 1;
    if (state.held[i] < 0 || state.held[i + 1] < chain_.x[i + 1]) return;
    const std::int64_t own = state.left == chain_.forward_seconds.size() ? chain_.y[i + 1] : 0;
    if (Used(state) + own + chain_.y[i] + chain_.backward_extra[i] > memory) return;
    SlowState next = state;
    next.held[i + 1] = -1;
    --next.left;
    Reach(next, seconds + chain_.backward_seconds[i]);
  }

  bool RunsOnce(std::size_t i) const {
    for (const std::size_t once : chain_.runs_once) {
      if (once == i) return true;
    }
    return false;
  }

  const Chain& chain_;
  std::map<Key, double> best_;
  std::set<std::pair<double, Key>> queue_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SLOW_RECOMPUTE_H_
