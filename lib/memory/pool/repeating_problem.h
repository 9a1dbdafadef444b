// SPDX-License-Identifier: Apache-2.0
// The planning problem of an iteration that repeats.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_REPEATING_PROBLEM_H_
#define TIDEPOOL_LIB_MEMORY_POOL_REPEATING_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/memory/pool/iteration_log.h"
#include "lib/memory/pool/range.h"
#include "tidepool/trace/plan.h"

namespace tidepool::pool {

// Time is a circle: a buffer that is left to the next iteration lives across its beginning. The
// circle is cut where the fewest bytes are live. As a rule it is one iteration long. It is two
// iterations long where a request comes before the same request of the iteration before it is
// freed: then both need offsets.
class RepeatingProblem {
 public:
  // `iteration` has times from 0 to `end` > 0, and the requests in their order. `carried_frees` are
  // frees of the iteration before.
  RepeatingProblem(PlanProblem iteration, std::int64_t end,
                   const std::vector<CarriedFree>& carried_frees, bool may_unroll);

  // Returns how many iterations the circle has: 1 or 2.
  std::size_t iterations() const { return iterations_; }

  // Returns the most bytes that are live at a time.
  std::int64_t PeakBytes() const;

  // Both return the problem of the whole circle with ranges that are used at all times. The
  // requests of all its iterations are the first buffers.
  //
  // In the first, a buffer that lives across the cut has its offset to itself.
  PlanProblem Whole(const std::vector<Range>& fixed) const;
  // In the second, it is in two parts, at the lowest offset that is free of such buffers and of the
  // ranges. Nothing if no buffer lives across the cut for a part of the circle, or too many do.
  std::optional<PlanProblem> Divided(const std::vector<Range>& fixed) const;

 private:
  void SetEnds(std::int64_t end, const std::vector<CarriedFree>& carried_frees);
  void Unroll(std::int64_t end);
  void Cut();
  std::vector<std::int64_t> LiveBytes() const;
  std::vector<std::size_t> Divisible() const;

  PlanProblem problem_;  // lifetimes may reach beyond the end
  std::size_t iterations_ = 1;
  std::int64_t end_ = 0;  // of the circle
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_REPEATING_PROBLEM_H_
