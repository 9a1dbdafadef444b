// Plans: an offset for every buffer of a program, made before it runs, so that the pool is as small
// as the peak of live bytes, or as near to it as can be found.
//
// This is dynamic storage allocation: buffers with half-open lifetimes and sizes, whose offsets are
// wanted such that buffers that are live at the same time do not overlap in address. The smallest
// height is NP-hard to find. All functions are thread-safe.
#ifndef TIDEPOOL_TRACE_PLAN_H_
#define TIDEPOOL_TRACE_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tidepool/export.h"
#include "tidepool/placement.h"
#include "tidepool/planned_placement.h"

namespace tidepool {

// Lives in [lower, upper), in any unit of time. What was there before the first event, or stays
// after the last, has a lower or an upper beyond all others.
struct PlanBuffer {
  static constexpr std::int64_t kAnywhere = -1;

  std::int64_t lower = 0;
  std::int64_t upper = 0;  // greater than `lower`
  std::int64_t bytes = 0;  // in [1, kMaxRequestBytes]
  // Of the offset alone: a power of two up to 1 GiB. Sizes are taken as they are.
  std::int64_t alignment = 1;
  // Where it lies already and must stay, whatever its alignment, with its end within 2^60; or
  // kAnywhere: the plan decides.
  std::int64_t offset = kAnywhere;
};

struct PlanProblem {
  std::vector<PlanBuffer> buffers;
};

// A height that no plan can be below: the peak of live bytes, the highest end of a fixed buffer, or
// more where alignment wastes bytes between buffers, or what is fixed leaves holes that are too
// small. Errors are MakePlan's. O(n log n).
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> PlanLowerBound(const PlanProblem& problem);

struct PlanOptions {
  // A plan of at most this height is wanted, and the first one ends the search. Nothing: the
  // smallest height.
  std::optional<std::int64_t> capacity = std::nullopt;
  // The best plan so far is returned then. The first plan is always made, however long it takes:
  // O(n log n) as a rule. 0: nothing but the first plan.
  double time_limit_seconds = 10;
  // Two plans with the same seed and number of threads are the same, on any machine, unless the
  // time limit or a stop struck.
  std::uint64_t seed = 1;
  // Asked often: the best plan so far is returned when a stop is requested.
  std::stop_token stop = {};
  // From 1 to 1024 search side by side. In the same number of rounds more threads find a plan that
  // is no higher, and where they are on cores of their own, a round takes as long as with one.
  int threads = 1;
};

struct Plan {
  std::vector<std::int64_t> offsets;  // one a buffer
  std::int64_t height = 0;  // the highest end of any buffer, fixed or not: the pool that it needs
  std::int64_t lower_bound = 0;  // proved: no plan is below it
  // Whether `height` is the smallest: it equals `lower_bound`.
  bool optimal = false;
  // Whether the search ended because of the time limit or the stop token, rather than by itself.
  bool timed_out = false;
  bool stopped = false;
  double seconds = 0;  // that it took
};

// The best plan that was found. With a capacity, one that is not met may still be returned; none
// can meet it when `lower_bound` is above it. ResourceExhausted for more than 2^31 - 2 buffers;
// InvalidArgument for buffers that are none, sizes whose sum exceeds 2^60, fixed buffers that
// overlap, a capacity below the largest buffer or the end of a fixed one, a time limit that is
// negative or no number, or a number of threads that is none. Every plan was checked by
// ValidatePlan. Memory is O(n) and at most 512 MiB more for searching, both for each thread.
TIDEPOOL_EXPORT absl::StatusOr<Plan> MakePlan(const PlanProblem& problem,
                                              const PlanOptions& options = {});

// Whether `offsets` are a plan of at most `height` for the problem: one each, not negative,
// aligned or where they are fixed, and no two buffers that live at the same time overlapping.
// InvalidArgument says what is wrong first. Shares nothing with what makes plans. O(n log n).
TIDEPOOL_EXPORT absl::Status ValidatePlan(const PlanProblem& problem,
                                          const std::vector<std::int64_t>& offsets,
                                          std::int64_t height);

// The first `requests` buffers of the problem, which is valid, as an iteration asks for them one by
// one, and where the valid plan `offsets` has them; the others are there beside. With clues. O(n
// log n).
TIDEPOOL_EXPORT std::shared_ptr<const PlacementPlan> ToPlacementPlan(
    const PlanProblem& problem, const std::vector<std::int64_t>& offsets, std::size_t requests);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_PLAN_H_
