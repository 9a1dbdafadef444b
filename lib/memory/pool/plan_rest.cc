// SPDX-License-Identifier: Apache-2.0
#include "lib/memory/pool/plan_rest.h"

#include <algorithm>

namespace tidepool::pool {
namespace {

// From one end of the score to the other: several times as many iterations as there are plans,
// since the first iteration of every kind is new.
constexpr std::size_t kFewest = 64;
constexpr std::size_t kPerPlan = 8;

// Even at two fifths, and at rest at one half.
constexpr std::int64_t kServed = 3;
constexpr std::int64_t kNotServed = -2;
constexpr std::int64_t kKnownAtRest = 4;
constexpr std::int64_t kNewAtRest = -4;
// Even at three iterations a plan, and at rest at eight of a kind.
constexpr std::int64_t kPlanOfFound = -9;
constexpr std::int64_t kNewFoundAtRest = -28;

std::int64_t Top(std::size_t most_plans) {
  return -kNotServed * static_cast<std::int64_t>(std::max(kFewest, kPerPlan * most_plans));
}

}  // namespace

PlanRest::PlanRest(std::size_t most_plans) : most_plans_(most_plans), score_(Top(most_plans)) {}

void PlanRest::CountMarked(std::uint64_t signature, bool was_served) {
  const bool is_known = Use(signature);
  if (is_resting_) {
    Add(is_known ? kKnownAtRest : kNewAtRest);
  } else {
    Add(is_known || was_served ? kServed : kNotServed);
  }
}

void PlanRest::CountFound(std::uint64_t signature, bool was_served) {
  const bool is_known = Use(signature);
  if (is_resting_) {
    Add(is_known ? kKnownAtRest : kNewFoundAtRest);
  } else if (was_served) {
    Add(kServed);
  }
}

void PlanRest::CountPlanOfFound() { Add(kPlanOfFound); }

void PlanRest::Add(std::int64_t points) {
  if (most_plans_ == 0) return;
  const std::int64_t top = Top(most_plans_);
  score_ = std::clamp(score_ + points, std::int64_t{0}, top);
  if (score_ == (is_resting_ ? top : 0)) is_resting_ = !is_resting_;
}

// Whether a table of plans would have had one for it.
bool PlanRest::Use(std::uint64_t signature) {
  const auto found = std::find(kinds_.begin(), kinds_.end(), signature);
  const bool is_known = found != kinds_.end();
  if (is_known) kinds_.erase(found);
  kinds_.push_front(signature);
  if (kinds_.size() > most_plans_) kinds_.pop_back();
  return is_known;
}

}  // namespace tidepool::pool
