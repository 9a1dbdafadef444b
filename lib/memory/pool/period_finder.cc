// SPDX-License-Identifier: Apache-2.0
// One distance is followed as long as it holds; the next candidate is the distance to the last
// request that was the same. In a sequence that repeats, one that comes once a period gives it.
#include "lib/memory/pool/period_finder.h"

#include <algorithm>

#include "tidepool/planned_placement.h"

namespace tidepool::pool {

void PeriodFinder::Add(std::int64_t bytes, std::int64_t live_bytes) {
  if (requests_.size() == kMostRequests) Reset();
  const Request request = {bytes, live_bytes};
  const std::size_t at = requests_.size();
  requests_.push_back(request);
  const auto [last, is_new] = last_.try_emplace(request, at);
  if (distance_ > 0 && requests_[at - distance_] == request) {
    ++repeated_;
  } else {
    distance_ = is_new ? 0 : at - last->second;
    repeated_ = is_new ? 0 : 1;
  }
  last->second = at;
  if (repeated_ <= most_repeated_) return;
  most_repeated_ = repeated_;
  distance_of_most_ = distance_;
}

std::size_t PeriodFinder::UntilBoundary() const {
  const auto begin = requests_.end() - static_cast<std::ptrdiff_t>(distance_);
  const auto least = std::min_element(
      begin, requests_.end(),
      [](const Request& a, const Request& b) { return a.live_bytes < b.live_bytes; });
  return static_cast<std::size_t>(least - begin);
}

std::uint64_t PeriodFinder::Signature() const {
  std::uint64_t signature = 0;
  for (std::size_t i = requests_.size() - distance_; i < requests_.size(); ++i) {
    signature = PlacementPlan::Extend(signature, requests_[i].bytes);
  }
  return signature;
}

void PeriodFinder::Reset() {
  requests_.clear();
  last_.clear();
  distance_ = 0;
  repeated_ = 0;
}

}  // namespace tidepool::pool
