// SPDX-License-Identifier: Apache-2.0
// Divides a workspace between kernels: a multiple-choice knapsack, solved from its linear program.
//
// 1. The linear program: from the smallest workspaces, kernels move along the lower convex hulls of
//    their fronts in the order of seconds saved per byte, until a move does not fit. The rate of
//    that move is the price of a byte.
// 2. At this price each alternative has a penalty: its time and priced bytes, less those of the
//    linear program's choice. No solution is faster than the linear program by its bound plus the
//    penalties of its alternatives. So alternatives and states with more penalty than the gap
//    between the best solution and the bound are left out.
// 3. Kernels enter by ascending penalty of their second choice. States are kept by bytes and ticks,
//    and only those that no other dominates. Each state is a solution too, with the kernels that
//    have not entered at their first choice. The search ends when no second choice is in the gap.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "policies/workspace/ticks.h"
#include "tidepool/training/workspace_policy.h"

namespace tidepool {
namespace workspace {
namespace {

using Fronts = std::vector<std::vector<KernelConfiguration>>;

// The search ends without a proof before it would need more than these: about a gigabyte.
constexpr std::size_t kMostStates = std::size_t{1} << 22;
constexpr std::size_t kMostChoices = std::size_t{1} << 24;

struct Alternative {
  std::int64_t bytes = 0;  // above the kernel's smallest workspace
  std::int64_t ticks = 0;
  double penalty = 0;
};

struct Kernel {
  std::vector<Alternative> alternatives = {};  // by ascending bytes, a prefix of the front
  std::size_t first_choice = 0;                // of the linear program
  double second_penalty = 0;                   // the least of all but the first choice
};

// A move of a kernel along its hull.
struct Move {
  std::size_t kernel = 0;
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t bytes = 0;
  double ticks_per_byte = 0;
};

std::int64_t TicksSaved(const Kernel& kernel, std::size_t from, std::size_t to) {
  return kernel.alternatives[from].ticks - kernel.alternatives[to].ticks;
}

Move MoveOf(const std::vector<Kernel>& kernels, std::size_t kernel, std::size_t from,
            std::size_t to) {
  const Kernel& its = kernels[kernel];
  const std::int64_t bytes = its.alternatives[to].bytes - its.alternatives[from].bytes;
  return {kernel, from, to, bytes,
          static_cast<double>(TicksSaved(its, from, to)) / static_cast<double>(bytes)};
}

// Appends the moves along the lower convex hull of a kernel, by falling rate.
void AppendHull(const std::vector<Kernel>& kernels, std::size_t kernel, std::vector<Move>& moves) {
  const std::size_t begin = moves.size();
  std::size_t last = 0;
  for (std::size_t to = 1; to < kernels[kernel].alternatives.size(); ++to) {
    Move move = MoveOf(kernels, kernel, last, to);
    while (moves.size() > begin && moves.back().ticks_per_byte <= move.ticks_per_byte) {
      move = MoveOf(kernels, kernel, moves.back().from, to);
      moves.pop_back();
    }
    moves.push_back(move);
    last = to;
  }
}

std::vector<Move> MovesOf(const std::vector<Kernel>& kernels) {
  std::vector<Move> moves;
  for (std::size_t i = 0; i < kernels.size(); ++i) AppendHull(kernels, i, moves);
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    return a.ticks_per_byte > b.ticks_per_byte;
  });
  return moves;
}

// A partial solution: alternatives of the kernels that entered.
struct State {
  std::int64_t bytes = 0;
  std::int64_t ticks = 0;
  std::size_t choice = 0;       // the last in its chain of choices; 0: none
  std::size_t alternative = 0;  // of the kernel that enters; used while states are made
};

// A choice that is not the first one.
struct Choice {
  std::size_t before = 0;
  std::size_t kernel = 0;
  std::size_t alternative = 0;
};

bool ComesBefore(const State& a, const State& b) {
  return a.bytes != b.bytes ? a.bytes < b.bytes : a.ticks < b.ticks;
}

class Division {
 public:
  Division(std::vector<Kernel> kernels, std::int64_t room)
      : kernels_(std::move(kernels)), room_(room) {}

  // Returns the alternative of each kernel.
  std::vector<std::size_t> Solve();
  bool proved() const { return proved_; }
  // Returns the moves of the linear program that fit, in their order.
  const std::vector<Move>& corners() const { return corners_; }

 private:
  void SolveLinearProgram();
  void TryOtherMoves(const std::vector<Move>& moves, std::size_t broken);
  void FindPenalties();
  void Enter(std::size_t kernel);
  void Filter(std::size_t kernel, std::vector<State>& states);
  std::vector<std::size_t> ChoicesOf(const State& state) const;
  double Priced(std::int64_t bytes, std::int64_t ticks) const {
    return static_cast<double>(ticks) + price_ * static_cast<double>(bytes);
  }
  // Returns the most penalty that a solution as good as the best one has.
  double Gap() const {
    return static_cast<double>(best_ticks_) - Priced(first_bytes_ - room_, first_ticks_) +
           tolerance_;
  }

  std::vector<Kernel> kernels_;
  std::int64_t room_;
  double price_ = 0;              // ticks of a byte; 0: every kernel has its fastest alternative
  double tolerance_ = 0;          // of rounded sums
  std::int64_t first_bytes_ = 0;  // of all first choices
  std::int64_t first_ticks_ = 0;
  std::int64_t entered_bytes_ = 0;  // of the first choices of kernels that entered
  std::int64_t entered_ticks_ = 0;
  std::int64_t best_ticks_ = 0;
  std::vector<std::size_t> best_;  // a solution that the search need not reach
  std::vector<Move> corners_;
  std::vector<State> states_ = {{}};
  std::vector<Choice> choices_ = {{}};
  bool proved_ = true;
};

void Division::SolveLinearProgram() {
  const std::vector<Move> moves = MovesOf(kernels_);
  std::size_t at = 0;
  while (at < moves.size() && moves[at].bytes <= room_ - first_bytes_) {
    kernels_[moves[at].kernel].first_choice = moves[at].to;
    first_bytes_ += moves[at].bytes;
    ++at;
  }
  corners_.assign(moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(at));
  if (at < moves.size()) price_ = moves[at].ticks_per_byte;
  double most_ticks = 0;
  for (const Kernel& kernel : kernels_) {
    first_ticks_ += kernel.alternatives[kernel.first_choice].ticks;
    most_ticks += static_cast<double>(kernel.alternatives.front().ticks);
  }
  tolerance_ = std::ldexp(most_ticks, -48);
  TryOtherMoves(moves, at);
}

// Finds a first solution: after the move that does not fit, later ones may.
void Division::TryOtherMoves(const std::vector<Move>& moves, std::size_t broken) {
  for (const Kernel& kernel : kernels_) best_.push_back(kernel.first_choice);
  best_ticks_ = first_ticks_;
  std::int64_t left = room_ - first_bytes_;
  for (std::size_t at = broken; at < moves.size(); ++at) {
    const Move& move = moves[at];
    if (move.bytes > left || best_[move.kernel] != move.from) continue;
    best_[move.kernel] = move.to;
    left -= move.bytes;
    best_ticks_ -= TicksSaved(kernels_[move.kernel], move.from, move.to);
  }
}

void Division::FindPenalties() {
  for (Kernel& kernel : kernels_) {
    const Alternative& first = kernel.alternatives[kernel.first_choice];
    kernel.second_penalty = std::numeric_limits<double>::infinity();
    for (Alternative& other : kernel.alternatives) {
      if (&other == &first) continue;
      other.penalty = std::max(0.0, Priced(other.bytes - first.bytes, other.ticks - first.ticks));
      kernel.second_penalty = std::min(kernel.second_penalty, other.penalty);
    }
  }
}

// Keeps states that fit, that no other dominates, and that may become better than the best
// solution. Takes the best solution that a state is.
void Division::Filter(std::size_t kernel, std::vector<State>& states) {
  const std::int64_t rest_bytes = first_bytes_ - entered_bytes_;
  const std::int64_t rest_ticks = first_ticks_ - entered_ticks_;
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
  std::size_t kept = 0;
  for (State state : states) {
    if (state.ticks >= fastest || state.bytes > room_) continue;
    if (Priced(state.bytes - entered_bytes_, state.ticks - entered_ticks_) > Gap()) continue;
    fastest = state.ticks;
    if (rest_bytes <= room_ - state.bytes) {
      best_ticks_ = std::min(best_ticks_, state.ticks + rest_ticks);
    }
    if (state.alternative != kernels_[kernel].first_choice) {
      choices_.push_back({state.choice, kernel, state.alternative});
      state.choice = choices_.size() - 1;
    }
    states[kept++] = state;
  }
  states.resize(kept);
}

void Division::Enter(std::size_t kernel) {
  const Kernel& its = kernels_[kernel];
  std::vector<State> merged;
  std::vector<State> moved;
  std::vector<State> both;
  for (std::size_t k = 0; k < its.alternatives.size(); ++k) {
    const Alternative& alternative = its.alternatives[k];
    if (alternative.penalty > Gap()) continue;
    moved.clear();
    for (const State& state : states_) {
      if (state.bytes > room_ - alternative.bytes) break;
      moved.push_back(
          {state.bytes + alternative.bytes, state.ticks + alternative.ticks, state.choice, k});
    }
    both.resize(merged.size() + moved.size());
    std::merge(merged.begin(), merged.end(), moved.begin(), moved.end(), both.begin(), ComesBefore);
    merged.swap(both);
  }
  entered_bytes_ += its.alternatives[its.first_choice].bytes;
  entered_ticks_ += its.alternatives[its.first_choice].ticks;
  Filter(kernel, merged);
  states_.swap(merged);
}

std::vector<std::size_t> Division::ChoicesOf(const State& state) const {
  std::vector<std::size_t> chosen;
  for (const Kernel& kernel : kernels_) chosen.push_back(kernel.first_choice);
  for (std::size_t at = state.choice; at != 0; at = choices_[at].before) {
    chosen[choices_[at].kernel] = choices_[at].alternative;
  }
  return chosen;
}

std::vector<std::size_t> Division::Solve() {
  SolveLinearProgram();
  if (price_ == 0) return best_;
  FindPenalties();
  std::vector<std::size_t> order(kernels_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return kernels_[a].second_penalty < kernels_[b].second_penalty;
  });
  for (const std::size_t kernel : order) {
    if (kernels_[kernel].second_penalty > Gap()) break;
    if (states_.size() > kMostStates / kernels_[kernel].alternatives.size() ||
        choices_.size() > kMostChoices) {
      proved_ = false;
      break;
    }
    Enter(kernel);
  }
  // More bytes come with less time.
  const std::int64_t rest_bytes = first_bytes_ - entered_bytes_;
  const std::int64_t rest_ticks = first_ticks_ - entered_ticks_;
  for (auto state = states_.rbegin(); state != states_.rend(); ++state) {
    if (rest_bytes > room_ - state->bytes) continue;
    return state->ticks + rest_ticks <= best_ticks_ ? ChoicesOf(*state) : best_;
  }
  return best_;
}

absl::Status DoesNotFit(const Fronts& fronts, std::int64_t limit_bytes) {
  double sum = 0;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < fronts.size(); ++i) {
    if (fronts[i].empty()) {
      return absl::ResourceExhaustedError(absl::StrCat("kernel ", i, " has no configuration"));
    }
    const std::int64_t bytes = fronts[i].front().workspace_bytes;
    sum += static_cast<double>(bytes);
    if (bytes > fronts[largest].front().workspace_bytes) largest = i;
  }
  constexpr auto kMost = static_cast<double>(kMostWorkspaceBytes);
  return absl::ResourceExhaustedError(
      absl::StrCat("the kernels need at least ",
                   text::ExactSize(static_cast<std::int64_t>(std::min(sum, kMost))),
                   " of workspace together, kernel ", largest, " alone ",
                   text::ExactSize(fronts[largest].front().workspace_bytes), ", and the limit is ",
                   text::ExactSize(limit_bytes)));
}

// Returns the bytes that the smallest workspaces leave, or a negative number.
std::int64_t RoomIn(const Fronts& fronts, std::int64_t limit_bytes) {
  std::int64_t room = limit_bytes;
  for (const std::vector<KernelConfiguration>& front : fronts) {
    if (front.empty() || front.front().workspace_bytes > room) return -1;
    room -= front.front().workspace_bytes;
  }
  return room;
}

std::vector<Kernel> KernelsOf(const Fronts& fronts, std::int64_t room) {
  double most_seconds = 0;
  for (const std::vector<KernelConfiguration>& front : fronts) {
    most_seconds += front.front().seconds;
  }
  const Ticks ticks(most_seconds);
  std::vector<Kernel> kernels;
  for (const std::vector<KernelConfiguration>& front : fronts) {
    Kernel& kernel = kernels.emplace_back();
    for (const KernelConfiguration& point : front) {
      const std::int64_t bytes = point.workspace_bytes - front.front().workspace_bytes;
      if (bytes > room) break;
      kernel.alternatives.push_back({bytes, ticks.Of(point.seconds)});
    }
  }
  return kernels;
}

WorkspaceAnswer AnswerOf(const Fronts& fronts, const std::vector<std::size_t>& chosen,
                         const Division& division) {
  WorkspaceAnswer answer;
  answer.proved = division.proved();
  WorkspacePoint corner;
  for (std::size_t i = 0; i < fronts.size(); ++i) {
    const KernelConfiguration& configuration = fronts[i][chosen[i]];
    answer.seconds += configuration.seconds;
    answer.workspace_bytes += configuration.workspace_bytes;
    answer.kernels.push_back(configuration);
    corner.seconds += fronts[i].front().seconds;
    corner.workspace_bytes += fronts[i].front().workspace_bytes;
  }
  answer.front.push_back(corner);
  for (const Move& move : division.corners()) {
    corner.seconds -= fronts[move.kernel][move.from].seconds - fronts[move.kernel][move.to].seconds;
    corner.workspace_bytes += move.bytes;
    answer.front.push_back(corner);
  }
  if (answer.workspace_bytes == corner.workspace_bytes) answer.front.pop_back();
  answer.front.push_back({answer.seconds, answer.workspace_bytes});
  return answer;
}

}  // namespace
}  // namespace workspace

absl::StatusOr<WorkspaceAnswer> DivideWorkspace(
    const std::vector<std::vector<KernelConfiguration>>& fronts, std::int64_t limit_bytes) {
  const std::int64_t room = workspace::RoomIn(fronts, limit_bytes);
  if (room < 0) return workspace::DoesNotFit(fronts, limit_bytes);
  workspace::Division division(workspace::KernelsOf(fronts, room), room);
  const std::vector<std::size_t> chosen = division.Solve();
  return workspace::AnswerOf(fronts, chosen, division);
}

}  // namespace tidepool
