// SPDX-License-Identifier: Apache-2.0
// An exhaustive search over the schedules of a small chain: a walk through all states, one unit of
// time after the other. It shares no code with the library.
#ifndef TIDEPOOL_TESTS_TRAINING_CHAIN_SLOW_CHAIN_H_
#define TIDEPOOL_TESTS_TRAINING_CHAIN_SLOW_CHAIN_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "tidepool/training/chain.h"

namespace tidepool::testing {

// Times of all operations and transfers of the chain are whole seconds, at most 1000 together.
class SlowChain {
 public:
  SlowChain(const Chain& chain, const ChainTransfers& transfers)
      : chain_(chain),
        transfers_(transfers),
        operations_(static_cast<int>(chain.forward_seconds.size())),
        moves_(static_cast<int>(transfers.offloads.size())) {}

  // Returns the smallest makespan, in seconds; nothing when the chain never ends.
  std::optional<int> Best() {
    // Steps that take no time go to the front of the queue, so states come in the order of time.
    std::deque<std::pair<State, int>> queue = {{State{}, 0}};
    std::map<State, bool> was_seen;
    while (!queue.empty()) {
      const auto [state, seconds] = queue.front();
      queue.pop_front();
      if (!was_seen.try_emplace(state, true).second) continue;
      if (state.operation == 2 * operations_) return seconds;
      for (const State& next : Instant(state)) {
        if (Used(next) <= chain_.memory_bytes) queue.emplace_front(next, seconds);
      }
      if (const std::optional<State> next = Later(state)) queue.emplace_back(*next, seconds + 1);
    }
    return std::nullopt;
  }

 private:
  static constexpr int kIdle = -1;
  struct State {
    int operation = 0;           // the next or the running one, of F_0, ..., B_0
    int operation_left = kIdle;  // seconds
    int transfer = 0;            // the next or the running one
    int transfer_left = kIdle;

    auto Tie() const { return std::tie(operation, operation_left, transfer, transfer_left); }
    bool operator<(const State& other) const { return Tie() < other.Tie(); }
  };

  bool IsBackward(int operation) const { return operation >= operations_; }
  int NumberOf(int operation) const {
    return IsBackward(operation) ? 2 * operations_ - 1 - operation : operation;
  }
  int MovedBy(int transfer) const {
    const auto at = static_cast<std::size_t>(transfer < moves_ ? transfer : transfer - moves_);
    return static_cast<int>(transfer < moves_ ? transfers_.offloads[at]
                                              : transfers_.prefetches[at]);
  }
  int SecondsOf(int operation) const {
    const auto i = static_cast<std::size_t>(NumberOf(operation));
    return static_cast<int>(IsBackward(operation) ? chain_.backward_seconds[i]
                                                  : chain_.forward_seconds[i]);
  }

  // Whether x_i was sent, and whether its prefetch has started and ended.
  bool WasSent(const State& state, int i) const {
    for (int k = 0; k < std::min(state.transfer, moves_); ++k) {
      if (MovedBy(k) == i) return true;
    }
    return false;
  }
  bool Comes(const State& state, int i, bool has_ended) const {
    const int last = state.transfer + (!has_ended && state.transfer_left != kIdle ? 1 : 0);
    for (int k = moves_; k < last; ++k) {
      if (MovedBy(k) == i) return true;
    }
    return false;
  }
  bool IsMade(const State& state, int i) const {
    const int started = state.operation + (state.operation_left != kIdle ? 1 : 0);
    return i <= std::min(started, operations_);
  }
  bool IsGone(const State& state, int i) const {  // B_(i-1) has ended
    return i > 0 && state.operation > 2 * operations_ - i;
  }
  bool IsPresent(const State& state, int i) const {
    if (!IsMade(state, i) || IsGone(state, i)) return false;
    const bool has_left = WasSent(state, i) && state.operation > i;
    return !has_left || Comes(state, i, false);
  }

  std::int64_t Used(const State& state) const {
    std::int64_t used = 0;
    for (int i = 0; i <= operations_; ++i) {
      if (IsPresent(state, i)) used += chain_.x[static_cast<std::size_t>(i)];
    }
    const bool runs = state.operation_left != kIdle;
    const auto number = static_cast<std::size_t>(NumberOf(state.operation));
    if (!IsBackward(state.operation)) return used + (runs ? chain_.forward_extra[number] : 0);
    // Between two operations the gradient of the last one is there.
    if (state.operation > operations_) used += chain_.y[number + 1];
    if (!runs) return used;
    if (state.operation == operations_) used += chain_.y[number + 1];
    return used + chain_.y[number] + chain_.backward_extra[number];
  }

  bool MayStartOperation(const State& state) const {
    if (state.operation_left != kIdle) return false;
    if (!IsBackward(state.operation)) return true;
    const int i = NumberOf(state.operation);
    for (int k = 0; k < moves_; ++k) {
      if (MovedBy(k) == i && !Comes(state, i, true)) return false;
    }
    return true;
  }
  bool MayStartTransfer(const State& state) const {
    if (state.transfer_left != kIdle || state.transfer == 2 * moves_) return false;
    return state.transfer >= moves_ || MovedBy(state.transfer) <= state.operation;
  }

  std::vector<State> Instant(const State& state) const {
    std::vector<State> next;
    if (MayStartOperation(state)) {
      next.push_back(state);
      next.back().operation_left = SecondsOf(state.operation);
    }
    if (state.operation_left == 0) {
      next.push_back(state);
      ++next.back().operation;
      next.back().operation_left = kIdle;
    }
    if (MayStartTransfer(state)) {
      next.push_back(state);
      const double bytes =
          static_cast<double>(chain_.x[static_cast<std::size_t>(MovedBy(state.transfer))]);
      next.back().transfer_left = static_cast<int>(bytes / chain_.link_bytes_per_second);
    }
    if (state.transfer_left == 0) {
      next.push_back(state);
      ++next.back().transfer;
      next.back().transfer_left = kIdle;
    }
    return next;
  }

  // Returns the state a second later; an operation or transfer without time left has to end first.
  static std::optional<State> Later(State state) {
    if (state.operation_left == 0 || state.transfer_left == 0) return std::nullopt;
    if (state.operation_left == kIdle && state.transfer_left == kIdle) return std::nullopt;
    state.operation_left = std::max(kIdle, state.operation_left - 1);
    state.transfer_left = std::max(kIdle, state.transfer_left - 1);
    return state;
  }

  const Chain& chain_;
  const ChainTransfers& transfers_;
  const int operations_;
  const int moves_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_TRAINING_CHAIN_SLOW_CHAIN_H_
