// SPDX-License-Identifier: Apache-2.0
#include "tests/support/exact_search/exact_search.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace tidepool::testing {
namespace {

constexpr std::size_t kMostActors = 10;
constexpr std::int16_t kIdle = -1;

struct State {
  ExactSet held;                                         // places with memory
  ExactSet started = {};                                 // due operations
  std::array<std::int16_t, kMostActors> operation = {};  // by actor
  std::array<std::int16_t, kMostActors> left = {};       // seconds

  friend bool operator==(const State&, const State&) = default;
};

struct StateHash {
  std::size_t operator()(const State& state) const {
    constexpr std::size_t kFactor = 0x9e3779b97f4a7c15U;
    std::size_t hash = std::hash<ExactSet>()(state.held);
    hash = hash * kFactor + std::hash<ExactSet>()(state.started);
    for (std::size_t i = 0; i < kMostActors; ++i) {
      hash = hash * kFactor + static_cast<std::size_t>(state.operation[i] * 4096 + state.left[i]);
    }
    return hash;
  }
};

// The consequences of the operations that have started.
struct Rest {
  ExactSet needed;                            // places that an operation or the end may use
  std::array<int, kMostActors> seconds = {};  // of due operations, by first actor
};

struct Node {
  State state = {};
  int seconds = 0;
  std::size_t from = 0;
  ExactAction action = {};
  bool is_action = false;
};

class Search {
 public:
  Search(const ExactProblem& problem, std::size_t most_states)
      : problem_(problem), most_states_(most_states), actors_of_(problem.actors, 1) {
    for (std::size_t i = 0; i < problem.operations.size(); ++i) {
      const ExactOperation& operation = problem.operations[i];
      actors_of_[operation.actor] = static_cast<int>(operation.actors);
      if (operation.is_due) due_.set(i);
    }
  }

  ExactAnswer Run() {
    State begin = {.held = problem_.begin};
    begin.operation.fill(kIdle);
    if (Fits(begin)) Reach(begin, {.state = begin});
    while (!open_.empty()) {
      const auto [bound, negative, at] = open_.top();
      open_.pop();
      const Node node = nodes_[at];
      if (node.seconds < -negative) continue;  // reached earlier since
      if (IsEnd(node.state)) return AnswerOf(at);
      if (nodes_.size() > most_states_) {
        return {.kind = ExactAnswer::Kind::kTooManyStates, .states = nodes_.size()};
      }
      Expand(at, node);
      if (!is_whole_) return {.kind = ExactAnswer::Kind::kNotWhole, .states = nodes_.size()};
    }
    return {.states = nodes_.size()};
  }

 private:
  using Entry = std::tuple<int, int, std::size_t>;  // bound, -seconds, node

  bool Fits(const State& state) const {
    std::vector<int> used(problem_.memory_units.size());
    for (std::size_t i = 0; i < problem_.places.size(); ++i) {
      const ExactPlace& place = problem_.places[i];
      if (state.held[i] && place.device != kNoDevice) used[place.device] += place.units;
    }
    for (const std::int16_t running : state.operation) {
      if (running == kIdle) continue;
      const ExactOperation& operation = problem_.operations[static_cast<std::size_t>(running)];
      used[operation.device] += operation.units;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i] > problem_.memory_units[i]) return false;
    }
    return true;
  }

  bool IsIdle(const State& state) const {
    return std::ranges::all_of(state.operation, [](std::int16_t one) { return one == kIdle; });
  }

  bool IsEnd(const State& state) const {
    return IsIdle(state) && state.started == due_ && (problem_.end & ~state.held).none();
  }

  // Values that a copy, a task that runs again or an optional task makes are needed as long as
  // something needs them, and so are the places that these read.
  const Rest& RestOf(const ExactSet& started) {
    const auto [entry, is_new] = rests_.try_emplace(started);
    Rest& rest = entry->second;
    if (!is_new) return rest;
    rest.needed = problem_.end;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      const ExactOperation& operation = problem_.operations[i];
      if (!operation.is_due || started[i]) continue;
      rest.needed |= operation.reads;
      rest.seconds[operation.actor] += operation.seconds;
    }
    for (ExactSet before; before != rest.needed;) {
      before = rest.needed;
      for (const ExactOperation& operation : problem_.operations) {
        const bool makes_needed = (operation.takes & rest.needed).any();
        if (!operation.is_due && makes_needed) rest.needed |= operation.reads;
      }
    }
    return rest;
  }

  int BoundOf(const State& state, const Rest& rest) const {
    int most = 0;
    for (std::size_t first = 0; first < problem_.actors;) {
      const auto count = static_cast<std::size_t>(actors_of_[first]);
      int left = rest.seconds[first];
      for (std::size_t i = first; i < first + count; ++i) left += state.left[i];
      const int slots = actors_of_[first];
      most = std::max(most, (left + slots - 1) / slots);
      first += count;
    }
    for (const std::vector<std::size_t>& dividers : problem_.dividers) {
      int left = 0;
      for (const std::size_t actor : dividers) left += rest.seconds[actor] + state.left[actor];
      most = std::max(most, left);
    }
    return most;
  }

  struct Uses {
    ExactSet all;
    ExactSet taken;  // memory without a value yet
  };
  Uses UsesOf(const State& state) const {
    Uses uses;
    for (const std::int16_t running : state.operation) {
      if (running == kIdle) continue;
      const ExactOperation& operation = problem_.operations[static_cast<std::size_t>(running)];
      uses.taken |= operation.takes;
      uses.all |= operation.reads;
    }
    uses.all |= uses.taken;
    return uses;
  }

  // Values that nothing needs go at once, unless they are in use.
  void Reach(State state, Node node) {
    const Rest& rest = RestOf(state.started);
    const ExactSet useless = state.held & ~rest.needed & ~UsesOf(state).all;
    state.held &= ~useless;
    node.state = state;
    const auto [entry, is_new] = number_.try_emplace(state, nodes_.size());
    const std::size_t at = entry->second;
    if (is_new) {
      nodes_.push_back(node);
    } else if (nodes_[at].seconds <= node.seconds) {
      return;
    } else {
      nodes_[at] = node;
    }
    open_.emplace(node.seconds + BoundOf(state, rest), -node.seconds, at);
  }

  void Expand(std::size_t at, const Node& node) {
    const Uses uses = UsesOf(node.state);
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) TryStart(at, node, uses, i);
    const ExactSet idle = node.state.held & ~uses.all;
    for (std::size_t i = 0; i < problem_.places.size(); ++i) {
      if (idle[i] && MayDrop(node.state, i)) Drop(at, node, i);
    }
    if (!IsIdle(node.state)) Advance(at, node);
  }

  void TryStart(std::size_t at, const Node& node, const Uses& uses, std::size_t index) {
    const ExactOperation& operation = problem_.operations[index];
    const State& state = node.state;
    if (operation.is_due && state.started[index]) return;
    if ((operation.after & ~state.started).any()) return;
    if ((operation.reads & ~(state.held & ~uses.taken)).any()) return;
    if (((operation.takes | operation.absent) & state.held & ~operation.clears).any()) return;
    if ((operation.clears & uses.all).any()) return;
    if (!operation.is_due && (operation.takes & RestOf(state.started).needed).none()) return;
    for (std::size_t actor = operation.actor; actor < operation.actor + operation.actors; ++actor) {
      if (state.operation[actor] == kIdle) return Start(at, node, index, actor);
    }
  }

  void Start(std::size_t at, const Node& node, std::size_t index, std::size_t actor) {
    const ExactOperation& operation = problem_.operations[index];
    State next = node.state;
    next.held = (next.held & ~operation.clears) | operation.takes;
    if (operation.is_due) next.started.set(index);
    next.operation[actor] = static_cast<std::int16_t>(index);
    next.left[actor] = static_cast<std::int16_t>(operation.seconds);
    if (!Fits(next)) return;
    if (operation.seconds == 0) next.operation[actor] = kIdle;
    Reach(next, {.seconds = node.seconds,
                 .from = at,
                 .action = {.seconds = node.seconds, .index = index, .actor = actor},
                 .is_action = true});
  }

  // A value may go if an operation can bring it back.
  bool MayDrop(const State& state, std::size_t place) const {
    if (problem_.may_vanish[place]) return true;
    return std::ranges::any_of(problem_.operations, [&](const ExactOperation& operation) {
      if (operation.is_due || !operation.takes[place]) return false;
      return (operation.after & ~state.started).none() && operation.clears.none();
    });
  }

  void Drop(std::size_t at, const Node& node, std::size_t place) {
    if (problem_.places[place].device == kNoDevice) return;  // the host has room
    State next = node.state;
    next.held.reset(place);
    Reach(next, {.seconds = node.seconds,
                 .from = at,
                 .action = {.seconds = node.seconds, .is_drop = true, .index = place},
                 .is_action = true});
  }

  using Parts = std::array<int, kMostActors>;  // seconds that an actor takes for one of its own

  Parts PartsOf(const State& state) const {
    Parts parts;
    parts.fill(1);
    for (const std::vector<std::size_t>& dividers : problem_.dividers) {
      const auto running = static_cast<int>(std::ranges::count_if(
          dividers, [&](std::size_t actor) { return state.operation[actor] != kIdle; }));
      for (const std::size_t actor : dividers) parts[actor] = std::max(1, running);
    }
    return parts;
  }

  void Advance(std::size_t at, const Node& node) {
    State next = node.state;
    const Parts parts = PartsOf(next);
    int step = INT32_MAX;
    for (std::size_t i = 0; i < kMostActors; ++i) {
      if (next.operation[i] != kIdle) step = std::min(step, next.left[i] * parts[i]);
    }
    for (std::size_t i = 0; i < kMostActors; ++i) {
      if (next.operation[i] == kIdle) continue;
      is_whole_ &= step % parts[i] == 0;
      next.left[i] = static_cast<std::int16_t>(next.left[i] - step / parts[i]);
      if (next.left[i] == 0) next.operation[i] = kIdle;
    }
    Reach(next, {.seconds = node.seconds + step, .from = at});
  }

  ExactAnswer AnswerOf(std::size_t at) const {
    ExactAnswer answer = {.kind = ExactAnswer::Kind::kOptimum,
                          .seconds = nodes_[at].seconds,
                          .states = nodes_.size()};
    for (; at != 0; at = nodes_[at].from) {
      if (nodes_[at].is_action) answer.actions.push_back(nodes_[at].action);
    }
    std::ranges::reverse(answer.actions);
    return answer;
  }

  const ExactProblem& problem_;
  const std::size_t most_states_;
  std::vector<int> actors_of_;  // by first actor
  ExactSet due_;
  std::unordered_map<ExactSet, Rest> rests_;  // by started operations
  bool is_whole_ = true;
  std::vector<Node> nodes_;
  std::unordered_map<State, std::size_t, StateHash> number_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

}  // namespace

ExactAnswer SearchExactly(const ExactProblem& problem, std::size_t most_states) {
  return Search(problem, most_states).Run();
}

}  // namespace tidepool::testing
