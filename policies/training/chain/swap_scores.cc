// SPDX-License-Identifier: Apache-2.0
// Computes scores of activations from their uses and from the memory in between.
#include "policies/training/chain/swap_scores.h"

#include <algorithm>
#include <cmath>

namespace tidepool::chain_policies {
namespace {

constexpr std::size_t kMostUpdated = 10'000;

// Returns the scores of duration: the times between F_i and B_i, less two transfers.
std::vector<double> Absences(const Chain& chain) {
  std::vector<double> absences(chain.forward_seconds.size());
  double between = 0;
  for (std::size_t i = absences.size(); i-- > 0;) {
    const double transfer = static_cast<double>(chain.x[i]) / chain.link_bytes_per_second;
    absences[i] = between - 2 * transfer;
    between += chain.forward_seconds[i] + chain.backward_seconds[i];
  }
  return absences;
}

double AreaOf(double absence, double bytes) {
  return absence >= 0 ? absence * bytes : absence / std::max(bytes, 1.0);
}

// Returns the sums of bytes above the memory, over F_(i+1) to B_(i+1).
std::vector<double> WeightedAbsences(const Chain& chain) {
  const std::vector<std::int64_t> above = BytesAboveMemory(chain);
  std::vector<double> sums(chain.forward_seconds.size());
  double sum = 0;
  for (std::size_t i = sums.size(); i-- > 0;) {
    sums[i] = sum;
    sum += static_cast<double>(above[i]) + static_cast<double>(above[above.size() - 1 - i]);
  }
  return sums;
}

// Chooses one activation after the other, and gives each the sum that it had when it was chosen.
// The absences of activations contain each other: x_j is away during 2 (L - j) operations, and all
// of them lie in the absence of x_i with i < j.
std::vector<double> UpdatedAbsences(const Chain& chain, std::vector<double> sums) {
  if (sums.size() > kMostUpdated) return sums;
  const std::size_t last = sums.size() - 1;
  std::vector<bool> is_chosen(sums.size());
  for (std::size_t round = 0; round < sums.size(); ++round) {
    std::size_t best = sums.size();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (!is_chosen[i] && (best == sums.size() || sums[i] > sums[best])) best = i;
    }
    is_chosen[best] = true;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (is_chosen[i]) continue;
      const auto both_away = static_cast<double>(2 * (last - std::max(i, best)));
      sums[i] -= static_cast<double>(chain.x[best]) * both_away;
    }
  }
  return sums;
}

void AddScaled(const std::vector<double>& values, std::size_t score,
               std::vector<SwapScores>& scores) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < values.size(); ++i) {
    scores[i][score] = largest > 0 ? values[i] / largest : 0;
  }
}

}  // namespace

std::vector<std::int64_t> BytesAboveMemory(const Chain& chain) {
  std::vector<std::int64_t> above = ForwardBytes(chain);
  const std::vector<std::int64_t> backward = BackwardBytes(chain);
  above.insert(above.end(), backward.rbegin(), backward.rend());
  for (std::int64_t& bytes : above) bytes -= chain.memory_bytes;
  return above;
}

std::vector<SwapScores> ScoresOf(const Chain& chain) {
  const std::vector<double> absences = Absences(chain);
  std::vector<double> areas = absences;
  for (std::size_t i = 0; i < areas.size(); ++i) {
    areas[i] = AreaOf(areas[i], static_cast<double>(chain.x[i]));
  }
  const std::vector<double> weighted = WeightedAbsences(chain);
  std::vector<SwapScores> scores(absences.size());
  AddScaled(absences, 0, scores);
  AddScaled(areas, 1, scores);
  AddScaled(weighted, 2, scores);
  AddScaled(UpdatedAbsences(chain, weighted), 3, scores);
  return scores;
}

}  // namespace tidepool::chain_policies
