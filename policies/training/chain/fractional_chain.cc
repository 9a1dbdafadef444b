// SPDX-License-Identifier: Apache-2.0
// Walks from the outer operations of a fractional chain to the inner ones, on both sides at once.
#include "policies/training/chain/fractional_chain.h"

#include <algorithm>

namespace tidepool::chain_policies {
namespace {

double Positive(double value) { return std::max(value, 0.0); }

std::vector<double> AsBytes(const std::vector<double>& seconds, double rate) {
  std::vector<double> bytes = seconds;
  for (double& value : bytes) value *= rate;
  return bytes;
}

// Returns the gap when the link offloads after F_L and does not prefetch before B_L has run for
// `idle_link`. B_j starts beside data that is still leaving. Equation (9).
double GapOfOffloads(const FractionalChain& chain, const FractionalState& state) {
  const double idle_link = -state.prefetched;
  const double used = state.resident + state.to_offload - chain.memory;
  double gap = Positive(state.to_offload - idle_link);
  double passed = 0;  // U_j^B
  double gone = 0;    // x_i of i > j + 1
  for (std::size_t j = chain.operations(); j-- > 0 && passed < idle_link;) {
    const double needed = chain.backward_extra[j] + chain.y[j] + chain.y[j + 1] - gone;
    gap = std::max(gap, used + needed - passed);
    passed += chain.backward[j];
    gone += chain.x[j + 1];
  }
  return gap;
}

// Returns the gap when the link prefetches before B_L, beside the last forward operations.
// Equation (10).
double GapOfPrefetches(const FractionalChain& chain, const FractionalState& state) {
  const double idle_link = -state.to_offload;
  const double used = state.resident + state.prefetched - chain.memory;
  double gap = Positive(state.prefetched - idle_link);
  double passed = 0;    // U_j^F
  double not_made = 0;  // x_i of i > j + 1
  for (std::size_t j = chain.operations(); j-- > 0 && passed < idle_link;) {
    gap = std::max(gap, used + chain.forward_extra[j] - not_made - passed);
    passed += chain.forward[j];
    not_made += chain.x[j + 1];
  }
  return gap;
}

}  // namespace

FractionalChain ToFractional(const Chain& chain) {
  const double rate = chain.link_bytes_per_second;
  return {.forward = AsBytes(chain.forward_seconds, rate),
          .backward = AsBytes(chain.backward_seconds, rate),
          .forward_extra = {chain.forward_extra.begin(), chain.forward_extra.end()},
          .backward_extra = {chain.backward_extra.begin(), chain.backward_extra.end()},
          .x = {chain.x.begin(), chain.x.end()},
          .y = {chain.y.begin(), chain.y.end()},
          .memory = static_cast<double>(chain.memory_bytes)};
}

std::optional<FractionalState> Advance(const FractionalChain& chain, std::size_t i,
                                       const FractionalState& state, std::optional<double> moved) {
  // Bytes that each operation needs beyond the memory, when all that can be away is away.
  const double forward = state.resident + chain.forward_extra[i] + chain.x[i + 1] - chain.memory;
  const double backward = state.resident + chain.backward_extra[i] + chain.y[i] + chain.y[i + 1] +
                          chain.x[i + 1] - chain.memory;
  if (forward > 0 || backward > 0) return std::nullopt;
  const double to_offload = Positive(state.to_offload);
  const double prefetched = Positive(state.prefetched);
  const double forward_wait = Positive(forward + to_offload);    // equation (1)
  const double backward_wait = Positive(backward + prefetched);  // equation (6)
  const double forward_time = forward_wait + chain.forward[i];
  const double backward_time = backward_wait + chain.backward[i];
  FractionalState next = {.resident = state.resident + chain.x[i + 1],
                          .to_offload = state.to_offload - forward_time,
                          .prefetched = state.prefetched - backward_time,
                          .idle = state.idle + forward_wait + backward_wait};
  if (!moved.has_value()) return next;
  next.resident -= *moved;
  next.to_offload = to_offload + *moved - forward_time;             // equation (2)
  next.prefetched = *moved + Positive(prefetched - backward_time);  // equation (7)
  return next;
}

double IdleAtEnd(const FractionalChain& chain, const FractionalState& state) {
  if (state.to_offload > 0 && state.prefetched > 0) {
    return state.idle + state.to_offload + state.prefetched;
  }
  if (state.to_offload > 0) return state.idle + GapOfOffloads(chain, state);
  if (state.prefetched > 0) return state.idle + GapOfPrefetches(chain, state);
  return state.idle;
}

std::optional<double> FractionalIdle(const FractionalChain& chain,
                                     const std::vector<std::optional<double>>& moved) {
  std::optional<FractionalState> state = FirstState(chain);
  for (std::size_t i = 0; i < chain.operations() && state.has_value(); ++i) {
    state = Advance(chain, i, *state, moved[i]);
  }
  if (!state.has_value()) return std::nullopt;
  return IdleAtEnd(chain, *state);
}

EagerBound::EagerBound(const FractionalChain& chain)
    : chain_(chain), largest_(chain.operations() + 1) {
  for (std::size_t i = chain.operations(); i-- > 0;) {
    const double backward_extra = chain.backward_extra[i] + chain.y[i] + chain.y[i + 1];
    const double later = i + 1 < chain.operations() ? largest_[i + 1] : 0;
    largest_[i] = chain.x[i + 1] + std::max({chain.forward_extra[i], backward_extra, later});
  }
}

double EagerBound::Excess(std::size_t i, const FractionalState& state) const {
  return i < chain_.operations() ? Positive(state.resident + largest_[i] - chain_.memory) : 0;
}

std::optional<double> EagerBound::Idle(std::size_t i, const FractionalState& state,
                                       double limit) const {
  double excess = Excess(i, state);
  std::optional<FractionalState> last = state;
  for (std::size_t k = i; k < chain_.operations(); ++k) {
    const double moved = std::min(excess, chain_.x[k]);
    excess -= moved;
    last = Advance(chain_, k, *last, moved > 0 ? std::optional(moved) : std::nullopt);
    if (!last.has_value() || last->idle >= limit) return std::nullopt;
  }
  const double idle = IdleAtEnd(chain_, *last);
  return idle < limit ? std::optional(idle) : std::nullopt;
}

}  // namespace tidepool::chain_policies
