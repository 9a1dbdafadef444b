// SPDX-License-Identifier: Apache-2.0
// An exhaustive search over the schedules of a small chain, in which activations leave and return
// in parts: a walk through all states, one unit of time after the other. It shares no code with the
// library.
#ifndef TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SLOW_PARTS_H_
#define TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SLOW_PARTS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "tidepool/training/chain.h"

namespace tidepool::testing {

// Operations and copies of parts take whole seconds. Copies have any order, one at a time or one in
// each direction.
class SlowParts {
 public:
  static constexpr std::size_t kMostParts = 16;

  SlowParts(const Chain& chain, std::int64_t part_bytes, bool full_duplex)
      : chain_(chain),
        full_duplex_(full_duplex),
        operations_(static_cast<int>(chain.forward_seconds.size())) {
    for (int i = 0; i + 1 < operations_; ++i) {
      for (std::int64_t left = chain.x[At(i)]; left > 0; left -= part_bytes) {
        parts_.push_back({i, std::min(left, part_bytes)});
      }
    }
  }

  std::size_t parts() const { return parts_.size(); }

  // Returns the smallest makespan, in seconds; nothing when the chain never ends. At most
  // kMostParts parts.
  std::optional<int> Best() const {
    // Steps that take no time go to the front of the queue, so states come in the order of time.
    std::deque<std::pair<State, int>> queue = {{State{}, 0}};
    std::set<State> seen;
    while (!queue.empty()) {
      const auto [state, seconds] = queue.front();
      queue.pop_front();
      if (!seen.insert(state).second) continue;
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
  enum class Place : std::uint8_t { kHere, kSending, kSent, kFetching, kBack };
  struct Part {
    int activation = 0;
    std::int64_t bytes = 0;
  };
  struct State {
    int operation = 0;           // the next or the running one, of F_0, ..., B_0
    int operation_left = kIdle;  // seconds
    int out_left = kIdle;
    int in_left = kIdle;
    std::array<Place, kMostParts> places = {};

    auto Tie() const { return std::tie(operation, operation_left, out_left, in_left, places); }
    bool operator<(const State& other) const { return Tie() < other.Tie(); }
  };

  static std::size_t At(int i) { return static_cast<std::size_t>(i); }
  bool IsBackward(int operation) const { return operation >= operations_; }
  int NumberOf(int operation) const {
    return IsBackward(operation) ? 2 * operations_ - 1 - operation : operation;
  }
  int SecondsOf(int operation) const {
    const std::size_t i = At(NumberOf(operation));
    return static_cast<int>(IsBackward(operation) ? chain_.backward_seconds[i]
                                                  : chain_.forward_seconds[i]);
  }
  int SecondsOf(const Part& part) const {
    return static_cast<int>(static_cast<double>(part.bytes) / chain_.link_bytes_per_second);
  }
  bool Runs(const State& state) const { return state.operation_left != kIdle; }

  bool IsGone(const State& state, int i) const {  // B_(i-1) has ended
    return i > 0 && state.operation > 2 * operations_ - i;
  }

  std::int64_t Used(const State& state) const {
    std::int64_t used = 0;
    const int made = std::min(state.operation + (Runs(state) ? 1 : 0), operations_);
    for (int i = 0; i <= made; ++i) {
      if (!IsGone(state, i)) used += chain_.x[At(i)];
    }
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const int i = parts_[k].activation;
      const bool is_away = state.places[k] == Place::kSent && state.operation > i;
      if (is_away && !IsGone(state, i)) used -= parts_[k].bytes;
    }
    const std::size_t number = At(NumberOf(state.operation));
    if (!IsBackward(state.operation)) {
      return used + (Runs(state) ? chain_.forward_extra[number] : 0);
    }
    // Between two operations the gradient of the last one is there.
    if (state.operation > operations_ || Runs(state)) used += chain_.y[number + 1];
    return Runs(state) ? used + chain_.y[number] + chain_.backward_extra[number] : used;
  }

  // Whether the next or running operation is B_i or B_(i-1).
  bool IsReadBackward(const State& state, int i) const {
    const int number = NumberOf(state.operation);
    return IsBackward(state.operation) && (i == number || i == number + 1);
  }
  bool MayStartOperation(const State& state) const {
    if (Runs(state)) return false;
    if (!IsBackward(state.operation)) return true;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const bool is_read = IsReadBackward(state, parts_[k].activation);
      const bool is_there = state.places[k] == Place::kHere || state.places[k] == Place::kBack;
      if (is_read && !is_there) return false;
    }
    return true;
  }

  std::vector<State> Instant(const State& state) const {
    std::vector<State> next;
    const auto add = [&]() -> State& { return next.emplace_back(state); };
    if (MayStartOperation(state)) add().operation_left = SecondsOf(state.operation);
    if (state.operation_left == 0) {
      State& ended = add();
      ++ended.operation;
      ended.operation_left = kIdle;
    }
    const bool sends = state.out_left != kIdle;
    const bool fetches = state.in_left != kIdle;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const auto move = [&](Place place) -> State& {
        State& moved = add();
        moved.places[k] = place;
        return moved;
      };
      const int i = parts_[k].activation;
      const bool may_leave = i <= state.operation && !IsReadBackward(state, i);
      const bool may_send = !sends && (full_duplex_ || !fetches);
      const bool may_fetch = !fetches && (full_duplex_ || !sends);
      const Place place = state.places[k];
      if (place == Place::kHere && may_leave && may_send) {
        move(Place::kSending).out_left = SecondsOf(parts_[k]);
      }
      if (place == Place::kSending && state.out_left == 0) move(Place::kSent).out_left = kIdle;
      if (place == Place::kSent && may_fetch) {
        move(Place::kFetching).in_left = SecondsOf(parts_[k]);
      }
      if (place == Place::kFetching && state.in_left == 0) move(Place::kBack).in_left = kIdle;
    }
    return next;
  }

  // Returns the state a second later; anything without time left has to end first.
  static std::optional<State> Later(State state) {
    if (state.operation_left == 0 || state.out_left == 0 || state.in_left == 0) return {};
    if (std::max({state.operation_left, state.out_left, state.in_left}) == kIdle) return {};
    for (int* left : {&state.operation_left, &state.out_left, &state.in_left}) {
      *left = std::max(kIdle, *left - 1);
    }
    return state;
  }

  const Chain& chain_;
  const bool full_duplex_;
  const int operations_;
  std::vector<Part> parts_;
};

}  // namespace tidepool::testing

#endif  // TIDEPOOL_TESTS_POLICIES_TRAINING_CHAIN_SLOW_PARTS_H_
