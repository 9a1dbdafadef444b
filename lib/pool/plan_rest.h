// When a pool makes no plans, because there are too many kinds of iterations for those that it may
// keep: most plans would be dropped before their iteration comes again.
#ifndef TIDEPOOL_LIB_POOL_PLAN_REST_H_
#define TIDEPOOL_LIB_POOL_PLAN_REST_H_

#include <cstddef>
#include <cstdint>
#include <deque>

namespace tidepool::pool {

// Counts iterations and plans, and nothing else: the same ones always give the same answer. What
// ends a rest is more than what keeps one from beginning, so that it does not go to and fro. Not
// thread-safe.
class PlanRest {
 public:
  // With no plans there is nothing to rest from.
  explicit PlanRest(std::size_t most_plans);

  // An iteration ended, which a plan served or did not. O(most_plans).
  //
  // One that was marked, and whose kind is among the last `most_plans`, is as good as served: it is
  // when its plan was made. The rest begins when less than two fifths are for long, and ends when
  // more than half are for long.
  void CountMarked(std::uint64_t signature, bool was_served);
  // One that was found repeats the last one as a rule, and the requests before it was found count
  // nowhere. The rest begins when plans serve less than three of them each, and ends when they
  // repeat much longer than that.
  void CountFound(std::uint64_t signature, bool was_served);
  // A plan was made for iterations that were found.
  void CountPlanOfFound();

  bool is_resting() const { return is_resting_; }

 private:
  bool Use(std::uint64_t signature);
  void Add(std::int64_t points);

  const std::size_t most_plans_;
  std::deque<std::uint64_t> kinds_;  // signatures; the one used last is the first
  bool is_resting_ = false;
  // The rest begins at 0 and ends at the top.
  std::int64_t score_;
};

}  // namespace tidepool::pool

#endif  // TIDEPOOL_LIB_POOL_PLAN_REST_H_
