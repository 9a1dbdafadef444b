// SPDX-License-Identifier: Apache-2.0
// The policy autoswap: activations leave in the order of a weighted sum of four scores. A random
// search finds the weights; the authors search with Bayesian optimization.
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "policies/training/chain/best_set.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/swap_scores.h"
#include "policies/training/chain/sweep.h"

namespace tidepool::chain_policies {
namespace {

constexpr std::size_t kMostWeights = 200;
// The share of the search that looks for weights near the best ones.
constexpr std::size_t kNearOneIn = 2;

using Weights = SwapScores;

// Draws weights. The results of the standard's distributions differ between libraries, those of its
// generators do not.
class WeightSource {
 public:
  explicit WeightSource(std::uint64_t seed) : random_(seed) {}

  Weights Any() {
    Weights weights;
    for (double& weight : weights) weight = Unit();
    return weights;
  }
  Weights Near(Weights weights) {
    constexpr double kStep = 0.25;
    for (double& weight : weights) {
      weight = std::clamp(weight + kStep * (2 * Unit() - 1), 0.0, 1.0);
    }
    return weights;
  }

 private:
  double Unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  std::mt19937_64 random_;
};

// Chooses sets by weights.
class SwapChooser {
 public:
  explicit SwapChooser(const Chain& chain)
      : chain_(chain), scores_(ScoresOf(chain)), above_(BytesAboveMemory(chain)) {
    // An operation of x_i's absence exceeds the memory by this.
    const std::size_t operations = chain.forward_seconds.size();
    for (std::size_t k = 0; k < operations; ++k) {
      above_[k] = std::max(above_[k], above_[2 * operations - 1 - k]);
    }
    above_.resize(operations);
  }

  // Returns the first activations by their weighted scores, as many as the memory asks for.
  std::vector<std::size_t> Choose(const Weights& weights) const;

 private:
  std::vector<std::size_t> Ranking(const Weights& weights) const;

  const Chain& chain_;
  std::vector<SwapScores> scores_;
  std::vector<std::int64_t> above_;  // the larger of F_k and B_k
};

std::vector<std::size_t> SwapChooser::Ranking(const Weights& weights) const {
  std::vector<double> sums;
  sums.reserve(scores_.size());
  for (const SwapScores& scores : scores_) {
    sums.push_back(std::inner_product(scores.begin(), scores.end(), weights.begin(), 0.0));
  }
  std::vector<std::size_t> ranking(scores_.size());
  std::iota(ranking.begin(), ranking.end(), 0);
  std::stable_sort(ranking.begin(), ranking.end(),
                   [&](std::size_t a, std::size_t b) { return sums[a] > sums[b]; });
  return ranking;
}

// The candidates live across the operations above the memory. The later such an operation, the more
// activations are there: so x_i is a candidate as long as one after i is left.
std::vector<std::size_t> SwapChooser::Choose(const Weights& weights) const {
  std::vector<bool> is_chosen(above_.size());
  std::size_t end = above_.size();  // operations from here on fit
  std::int64_t away = 0;            // bytes of chosen activations that operation end - 1 lacks
  const auto shrink = [&] {
    while (end > 0 && above_[end - 1] <= away) {
      --end;
      if (end > 0 && is_chosen[end - 1]) away -= chain_.x[end - 1];
    }
  };
  shrink();
  std::vector<std::size_t> set;
  for (const std::size_t i : Ranking(weights)) {
    if (i + 1 >= end || chain_.x[i] == 0) continue;
    set.push_back(i);
    is_chosen[i] = true;
    away += chain_.x[i];
    shrink();
  }
  std::sort(set.begin(), set.end());
  return set;
}

}  // namespace

absl::StatusOr<ChainSchedule> MakeAutoswap(const Chain& chain, const ChainPolicyOptions& options) {
  const SwapChooser chooser(chain);
  WeightSource source(options.seed);
  BestSet best(chain);
  Weights best_weights = {};
  double least = 0;
  const std::size_t operations = chain.forward_seconds.size();
  const std::size_t count = std::min(MostSchedules(operations), kMostWeights);
  for (std::size_t k = 0; k < count; ++k) {
    if (k > 0 && options.stop.stop_requested()) break;
    Weights weights = {};
    if (k < weights.size()) {
      weights[k] = 1;  // each score alone
    } else {
      weights = k % kNearOneIn == 0 ? source.Near(best_weights) : source.Any();
    }
    const double seconds = best.Try(chooser.Choose(weights));
    if (k > 0 && seconds >= least) continue;
    least = seconds;
    best_weights = weights;
  }
  return best.Schedule();
}

}  // namespace tidepool::chain_policies
