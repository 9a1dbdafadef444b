// The `planned` placement: an iteration that asks for what was planned gets it where it was
// planned.
//
// The requests of an iteration are compared, in order, with those of a plan. One that is not as
// planned is a *deviation*: it goes where the plan is not likely to want memory soon, and what
// follows finds its way back to the plan. What was asked for first and stays, as weights do, need
// not be asked for again. Where several plans begin alike, the requests choose.
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

  std::int64_t bytes = 0;  // as the arena rounds them
  std::int64_t offset = kAnywhere;
  Clue clue = {};  // when all is as planned; it saves time
};

// What an iteration asks for, in order, and where each request goes. Immutable, so it may be shared
// between threads. Whether what is live together overlaps is not its business: what lies in the way
// makes a deviation.
class TIDEPOOL_EXPORT PlacementPlan {
 public:
  explicit PlacementPlan(std::vector<PlannedRequest> requests);

  const std::vector<PlannedRequest>& requests() const { return requests_; }
  // The pool that it needs.
  std::int64_t height_bytes() const { return height_bytes_; }
  // Of the sizes of the first `count` requests. Plans with the same signature of all their requests
  // are plans for the same iteration.
  std::uint64_t SignatureOfFirst(std::size_t count) const { return signatures_[count]; }
  std::uint64_t signature() const { return signatures_.back(); }

  // The signature of requests to which one more is added. That of none is 0.
  static std::uint64_t Extend(std::uint64_t signature, std::int64_t bytes);

 private:
  std::vector<PlannedRequest> requests_;
  std::vector<std::uint64_t> signatures_;  // by how many requests
  std::int64_t height_bytes_ = 0;
};

struct PlannedCounts {
  std::int64_t planned = 0;     // requests that were placed where a plan has them
  std::int64_t deviations = 0;  // requests that were not, and planned ones that never came
};

class TIDEPOOL_EXPORT PlannedPlacement : public PlacementPolicy {
 public:
  // Returns the policy `planned`, as MakePlacementPolicy does. Without plans it is best-fit.
  static std::unique_ptr<PlannedPlacement> Create(PlacementPlans plans = {});

  // The next request is the first of an iteration, which is like the first of `plans` or else like
  // one that begins as it does so far. When all requests of a plan were there and none of the
  // others goes on with the next one, that begins another iteration by itself. O(requests of the
  // plans that are new).
  virtual void BeginIteration(PlacementPlans plans) = 0;

  // Whether all requests of the plan that is followed were placed.
  virtual bool IsAtEnd() const = 0;
  // Null when none is, because there is none or the requests are too different.
  virtual const PlacementPlan* followed() const = 0;
  // Of all iterations.
  virtual PlannedCounts counts() const = 0;
};

}  // namespace tidepool

#endif  // TIDEPOOL_PLANNED_PLACEMENT_H_
