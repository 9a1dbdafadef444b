// SPDX-License-Identifier: Apache-2.0
// The policy vdnn-ratio of Beaumont et al., section 6.1: like vDNN++, but by the ratio of time and
// size instead of the type of a layer.
#include <algorithm>
#include <limits>
#include <vector>

#include "policies/training/chain/best_set.h"
#include "policies/training/chain/chain_policies.h"
#include "policies/training/chain/sweep.h"

namespace tidepool::chain_policies {
namespace {

using Indices = std::vector<std::size_t>;

std::vector<double> Ratios(const Chain& chain) {
  std::vector<double> ratios;
  ratios.reserve(chain.forward_seconds.size());
  for (std::size_t i = 0; i < chain.forward_seconds.size(); ++i) {
    const auto bytes = static_cast<double>(chain.x[i]);
    ratios.push_back(chain.x[i] == 0 ? std::numeric_limits<double>::infinity()
                                     : chain.forward_seconds[i] / bytes);
  }
  return ratios;
}

Indices AtLeast(const std::vector<double>& ratios, double threshold) {
  Indices set;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (ratios[i] >= threshold) set.push_back(i);
  }
  return set;
}

Indices EveryOther(const Indices& set) {
  Indices half;
  for (std::size_t k = 0; k < set.size(); k += 2) half.push_back(set[k]);
  return half;
}

}  // namespace

absl::StatusOr<ChainSchedule> MakeVdnnRatio(const Chain& chain, const ChainPolicyOptions& options) {
  const std::vector<double> ratios = Ratios(chain);
  std::vector<double> thresholds = ratios;
  std::sort(thresholds.begin(), thresholds.end());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  BestSet best(chain);
  best.Try({});
  const std::size_t most = MostSchedules(ratios.size()) / 2;
  for (const std::size_t k : Sweep(thresholds.size() - 1, most)) {
    const Indices set = AtLeast(ratios, thresholds[k]);
    best.Try(set);
    best.Try(EveryOther(set));
    if (options.stop.stop_requested()) break;
  }
  return best.Schedule();
}

}  // namespace tidepool::chain_policies
