// SPDX-License-Identifier: Apache-2.0
// The dynamic program goes through the operations from the outside to the inside. It keeps states
// that no other state dominates, and of which the eager bound is below the best idle time so far.
// Passes keep more and more states; the pass that drops no state for their number is a proof.
#include "policies/training/chain/idle_search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stop_token>
#include <tuple>
#include <utility>

#include "lib/base/arithmetic.h"

namespace tidepool::chain_policies {
namespace {

// States between two operations: from the first pass to the last.
constexpr std::size_t kFirstWidth = 128;
constexpr std::size_t kMostWidth = std::size_t{1} << 18;
constexpr std::size_t kWidthFactor = 4;
// Steps of the eager bound in a pass, about 10 ns each.
constexpr std::size_t kMostBoundSteps = 200'000'000;
// The states of the most similar residents with which a state is compared.
constexpr std::size_t kMostCompared = 64;
// The size of rounding errors, as a part of the sums of the sizes and times of a chain. Less than
// kEqualSeconds: states that differ by less than this are one state.
constexpr double kIdleRounding = 1e-13;

struct Node {
  FractionalState state;
  double bound = 0;  // of the idle time of all sets that begin like this
  std::uint32_t parent = 0;
  bool is_moved = false;  // whether the last activation is offloaded
};

class IdleSearch {
 public:
  IdleSearch(const FractionalChain& chain, const std::stop_token& stop);

  std::optional<LeastIdle> Find();

 private:
  // A choice for one activation: the position of the parent in its level, and whether the
  // activation is offloaded.
  struct Choice {
    std::uint32_t parent : 31;
    std::uint32_t is_moved : 1;
  };

  bool TryGreedy();
  bool Pass(std::size_t width);
  std::vector<Node> Children(const std::vector<Node>& level, std::size_t i) const;
  void AddChild(const Node& node, std::uint32_t parent, std::size_t i, bool is_moved,
                std::vector<Node>& children) const;
  void RemoveDominated(std::vector<Node>& nodes) const;
  bool Dominates(const FractionalState& a, const FractionalState& b) const;
  void TakeBest(const std::vector<Node>& level);

  const FractionalChain& chain_;
  const std::stop_token& stop_;
  const EagerBound eager_;
  double rounding_ = 0;
  LeastIdle best_ = {.idle = std::numeric_limits<double>::infinity()};
  std::vector<std::vector<Choice>> choices_;  // of each level
};

IdleSearch::IdleSearch(const FractionalChain& chain, const std::stop_token& stop)
    : chain_(chain), stop_(stop), eager_(chain) {
  for (const auto* list : {&chain.forward, &chain.backward, &chain.x}) {
    rounding_ = std::accumulate(list->begin(), list->end(), rounding_);
  }
  rounding_ *= kIdleRounding;
}

// Offloads the first activations, as many as the memory asks for.
bool IdleSearch::TryGreedy() {
  double excess = eager_.Excess(0, FirstState(chain_));
  std::vector<std::optional<double>> moved(chain_.operations());
  for (std::size_t i = 0; i < chain_.operations() && excess > 0; ++i) {
    moved[i] = chain_.x[i];
    excess -= chain_.x[i];
    best_.set.push_back(i);
  }
  const std::optional<double> idle = FractionalIdle(chain_, moved);
  best_.idle = idle.value_or(best_.idle);
  return idle.has_value();
}

void IdleSearch::AddChild(const Node& node, std::uint32_t parent, std::size_t i, bool is_moved,
                          std::vector<Node>& children) const {
  const std::optional<double> moved = is_moved ? std::optional(chain_.x[i]) : std::nullopt;
  std::optional<FractionalState> state = Advance(chain_, i, node.state, moved);
  if (!state.has_value()) return;
  // An idle link can transfer no more than the memory holds.
  state->to_offload = std::max(state->to_offload, -chain_.memory);
  state->prefetched = std::max(state->prefetched, -chain_.memory);
  const std::optional<double> bound = eager_.Idle(i + 1, *state, best_.idle - rounding_);
  if (!bound.has_value()) return;
  children.push_back({*state, *bound, parent, is_moved});
}

std::vector<Node> IdleSearch::Children(const std::vector<Node>& level, std::size_t i) const {
  std::vector<Node> children;
  children.reserve(2 * level.size());
  for (std::size_t k = 0; k < level.size(); ++k) {
    AddChild(level[k], static_cast<std::uint32_t>(k), i, false, children);
    if (chain_.x[i] > 0) AddChild(level[k], static_cast<std::uint32_t>(k), i, true, children);
  }
  return children;
}

bool IdleSearch::Dominates(const FractionalState& a, const FractionalState& b) const {
  return a.idle <= b.idle + rounding_ && a.to_offload <= b.to_offload + rounding_ &&
         a.prefetched <= b.prefetched + rounding_;
}

// A state with fewer resident bytes, less to offload, less prefetched and less idle time can do
// all that another can.
void IdleSearch::RemoveDominated(std::vector<Node>& nodes) const {
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) {
    return std::tie(a.state.resident, a.state.idle, a.state.to_offload, a.state.prefetched) <
           std::tie(b.state.resident, b.state.idle, b.state.to_offload, b.state.prefetched);
  });
  std::size_t kept = 0;
  for (const Node& node : nodes) {
    const std::size_t first = kept > kMostCompared ? kept - kMostCompared : 0;
    const bool is_dominated =
        std::any_of(nodes.begin() + static_cast<std::ptrdiff_t>(first),
                    nodes.begin() + static_cast<std::ptrdiff_t>(kept),
                    [&](const Node& other) { return Dominates(other.state, node.state); });
    if (!is_dominated) nodes[kept++] = node;
  }
  nodes.resize(kept);
}

// Takes the set of the last level with the least idle time, if it is better.
void IdleSearch::TakeBest(const std::vector<Node>& level) {
  const auto found = std::min_element(
      level.begin(), level.end(), [](const Node& a, const Node& b) { return a.bound < b.bound; });
  if (found == level.end() || found->bound >= best_.idle) return;
  best_ = {.idle = found->bound};
  auto at = static_cast<std::uint32_t>(found - level.begin());
  for (std::size_t i = choices_.size(); i-- > 0;) {
    if (choices_[i][at].is_moved != 0) best_.set.push_back(i);
    at = choices_[i][at].parent;
  }
  std::reverse(best_.set.begin(), best_.set.end());
}

// Searches with at most `width` states between two operations. Returns whether these were all, and
// no stop came.
bool IdleSearch::Pass(std::size_t width) {
  bool is_complete = true;
  choices_.clear();
  std::vector<Node> level = {{.state = FirstState(chain_)}};
  for (std::size_t i = 0; i < chain_.operations() && !level.empty(); ++i) {
    if (stop_.stop_requested()) return false;
    level = Children(level, i);
    RemoveDominated(level);
    if (level.size() > width) {
      is_complete = false;
      std::nth_element(level.begin(), level.begin() + static_cast<std::ptrdiff_t>(width),
                       level.end(), [](const Node& a, const Node& b) { return a.bound < b.bound; });
      level.resize(width);
    }
    std::vector<Choice>& choices = choices_.emplace_back();
    choices.reserve(level.size());
    for (const Node& node : level) {
      choices.push_back({.parent = node.parent, .is_moved = node.is_moved ? 1U : 0U});
    }
  }
  TakeBest(level);
  return is_complete;
}

std::optional<LeastIdle> IdleSearch::Find() {
  if (!TryGreedy()) return std::nullopt;
  const std::size_t steps = chain_.operations() * chain_.operations();
  const std::size_t most = std::min(kMostBoundSteps / steps, kMostWidth);
  for (std::size_t width = std::min(kFirstWidth, most); width > 0 && !best_.proved;) {
    best_.proved = Pass(width);
    if (width == most || stop_.stop_requested()) break;
    width = std::min(width * kWidthFactor, most);
  }
  return std::move(best_);
}

}  // namespace

std::optional<LeastIdle> FindLeastIdle(const FractionalChain& chain, const std::stop_token& stop) {
  return IdleSearch(chain, stop).Find();
}

}  // namespace tidepool::chain_policies
