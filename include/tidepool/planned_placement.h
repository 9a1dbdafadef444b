// SPDX-License-Identifier: Apache-2.0
// The `planned` placement: requests that match a plan get the offsets that the plan gives them.
//
// The policy compares the requests of an iteration, in order, with the requests of a plan. A
// request that does not match is a *deviation*: it gets memory that the plan is unlikely to need
// soon, and later requests can match again. The first requests of a plan need not come again if
// their memory stays, as that of weights does. Where several plans begin alike, the requests decide
// which plan is followed.
#ifndef TIDEPOOL_PLANNED_PLACEMENT_H_
#define TIDEPOOL_PLANNED_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tidepool/export.h"
#include "tidepool/placement.h"

namespace tidepool {

struct PlannedRequest {
  static constexpr std::int64_t kAnywhere = -1;

  std::int64_t bytes = 0;  // rounded up by the arena
  std::int64_t offset = kAnywhere;
  Clue clue = {};  // right when all requests match; it saves time
};

// The requests of an iteration, in order, with the offset of each. Immutable, so threads may share
// it. The class does not check whether live requests overlap: a request becomes a deviation if its
// offset is taken.
class TIDEPOOL_EXPORT PlacementPlan {
 public:
  explicit PlacementPlan(std::vector<PlannedRequest> requests);

  const std::vector<PlannedRequest>& requests() const { return requests_; }
  // Returns the bytes of the smallest pool that holds the plan.
  std::int64_t height_bytes() const { return height_bytes_; }
  // Returns the signature of the sizes of the first `count` requests. Two plans with equal
  // signatures of all their requests are plans for the same iteration.
  std::uint64_t SignatureOfFirst(std::size_t count) const { return signatures_[count]; }
  std::uint64_t signature() const { return signatures_.back(); }

  // Returns the signature of a sequence of requests after one more request. An empty sequence has
  // the signature 0.
  static std::uint64_t Extend(std::uint64_t signature, std::int64_t bytes);

 private:
  std::vector<PlannedRequest> requests_;
  std::vector<std::uint64_t> signatures_;  // by number of requests
  std::int64_t height_bytes_ = 0;
};

struct PlannedCounts {
  std::int64_t planned = 0;     // requests that were placed where a plan has them
  std::int64_t deviations = 0;  // requests placed elsewhere, and planned requests that did not come
};

class TIDEPOOL_EXPORT PlannedPlacement : public PlacementPolicy {
 public:
  // Returns the policy `planned`, as MakePlacementPolicy does. Without plans it is best-fit.
  static std::unique_ptr<PlannedPlacement> Create(PlacementPlans plans = {});

  // Begins an iteration with the next request. The iteration resembles the first of `plans`, or
  // another plan that begins with the same requests. When all requests of a plan came and no other
  // plan continues with the next request, that request begins another iteration by itself.
  // O(requests of the plans that are new).
  virtual void BeginIteration(PlacementPlans plans) = 0;

  // Returns whether all requests of the followed plan were placed.
  virtual bool IsAtEnd() const = 0;
  // Returns the followed plan; null without plans or when the requests differ too much from them.
  virtual const PlacementPlan* followed() const = 0;
  // Returns the sums over all iterations.
  virtual PlannedCounts counts() const = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_PLANNED_PLACEMENT_H_
