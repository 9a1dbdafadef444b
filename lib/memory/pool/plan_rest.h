// SPDX-License-Identifier: Apache-2.0
// PlanRest: decides when a pool makes no plans, because it sees more kinds of iterations than it
// may keep plans. Most plans would be dropped before their iteration comes again.
#ifndef TIDEPOOL_LIB_MEMORY_POOL_PLAN_REST_H_
#define TIDEPOOL_LIB_MEMORY_POOL_PLAN_REST_H_

#include <cstddef>
#include <cstdint>
#include <deque>

namespace tidepool::pool {

// Counts iterations and plans, and nothing else: equal sequences give equal answers. Ending a rest
// takes more than keeping a rest from beginning, so that the pool does not change to and fro. Not
// thread-safe.
class PlanRest {
 public:
  // A pool that may keep no plans never rests.
  explicit PlanRest(std::size_t most_plans);

  // The next two note that an iteration ended, and whether a plan served it. O(most_plans).
  //
  // A marked iteration of one of the last `most_plans` kinds counts as served: its plan would be
  // kept. The rest begins when less than two fifths of the iterations count for long. It ends when
  // more than half of them count for long.
  void CountMarked(std::uint64_t signature, bool was_served);
  // A found iteration usually repeats the last one, and requests before it was found do not count.
  // The rest begins when each plan serves less than three such iterations, and ends when they
  // repeat for much longer.
  void CountFound(std::uint64_t signature, bool was_served);
  // Notes that a plan was made for iterations that were found.
  void CountPlanOfFound();

  bool is_resting() const { return is_resting_; }

 private:
  bool Use(std::uint64_t signature);
  void Add(std::int64_t points);

  const std::size_t most_plans_;
  std::deque<std::uint64_t> kinds_;  // signatures; the signature used last is the first
  bool is_resting_ = false;
  // The rest begins at 0 and ends at the top.
  std::int64_t score_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_MEMORY_POOL_PLAN_REST_H_
