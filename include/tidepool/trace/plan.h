// SPDX-License-Identifier: Apache-2.0
// Plans: an offset for every buffer of a program, made before it runs, so that the pool is as small
// as the peak of live bytes, or as close to the peak as the search gets.
//
// The problem is dynamic storage allocation: given buffers with sizes and half-open lifetimes, find
// offsets such that buffers that are live at the same time do not overlap in address. The smallest
// height is NP-hard to find. With several streams, memory that a stream freed is free for that
// stream at once, and for another stream once it has waited. All functions are thread-safe.
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

// A buffer that lives in [lower, upper), in any unit of time. A buffer from before the first event
// has a lower below all others; one that stays after the last event has an upper above all others.
struct PlanBuffer {
  static constexpr std::int64_t kAnywhere = -1;

  std::int64_t lower = 0;
  std::int64_t upper = 0;  // greater than `lower`
  std::int64_t bytes = 0;  // in [1, kMaxRequestBytes]
  // The alignment of the offset alone: a power of two up to 1 GiB. Sizes are not rounded.
  std::int64_t alignment = 1;
  // The offset of a fixed buffer, of any alignment, with its end within 2^60; kAnywhere: the plan
  // decides.
  std::int64_t offset = kAnywhere;
  // The streams that allocate and free the buffer, below 1,024.
  std::uint32_t stream = 0;
  std::uint32_t free_stream = 0;
};

// At `time`, `stream` is made to wait for `awaited`. Its allocations at `time` and later know of
// every free that `awaited` had made or known of by then.
struct PlanWait {
  std::int64_t time = 0;
  std::uint32_t stream = 0;
  std::uint32_t awaited = 0;
};

// Two buffers need disjoint addresses if their lifetimes overlap, or if the stream that allocates
// the later one does not know of the free of the earlier one. A stream knows of its own frees.
struct PlanProblem {
  std::vector<PlanBuffer> buffers;
  std::vector<PlanWait> waits = {};  // in the order of time
};

// Returns a proved lower bound of every plan's height: the peak of live bytes or the highest end of
// a fixed buffer. It is higher where alignment wastes bytes between buffers, or where fixed buffers
// leave holes that are too small. With several streams it is the most bytes of buffers that need
// disjoint addresses pairwise. Errors are MakePlan's. O(n log n) with one stream.
TIDEPOOL_EXPORT absl::StatusOr<std::int64_t> PlanLowerBound(const PlanProblem& problem);

struct PlanOptions {
  // The height that suffices: the first plan of at most this height ends the search. Without a
  // value the search looks for the smallest height.
  std::optional<std::int64_t> capacity = std::nullopt;
  // The time after which the best plan so far is returned. The first plan is always made, in O(n
  // log n) as a rule, even beyond the limit. 0: only the first plan.
  double time_limit_seconds = 10;
  // Two plans with the same seed are equal, on any machine, unless a search ended by the time limit
  // or a stop.
  std::uint64_t seed = 1;
  // The search polls this token often, and returns the best plan so far when a stop is requested.
  std::stop_token stop = {};
};

struct Plan {
  std::vector<std::int64_t> offsets;  // one per buffer
  std::int64_t height = 0;  // the highest end of any buffer, fixed or not: the pool that it needs
  std::int64_t lower_bound = 0;  // proved: every plan is at least this high
  // Whether `height` is the smallest possible: it equals `lower_bound`.
  bool optimal = false;
  // Whether the time limit or the stop token ended the search.
  bool timed_out = false;
  bool stopped = false;
  double seconds = 0;  // the duration of the search
};

// Returns the best plan that the search finds, checked by ValidatePlan. The plan may exceed the
// wished capacity; no plan meets a capacity below `lower_bound`. ResourceExhausted for more than
// 2^31 - 2 buffers or 1,024 streams. InvalidArgument for invalid buffers, sizes with a sum above
// 2^60, fixed buffers that overlap, waits out of order, a capacity below the largest buffer or
// below the end of a fixed buffer, and a time limit that is negative or not a number. With several
// streams, a plan is no higher than plans of each stream's buffers alone, one above the other.
// Memory is O(n + waits streams), and at most 512 MiB more for the search.
TIDEPOOL_EXPORT absl::StatusOr<Plan> MakePlan(const PlanProblem& problem,
                                              const PlanOptions& options = {});

// Returns OK when `offsets` are a plan of at most `height` for the problem. That is: there is one
// offset per buffer, not negative, aligned or equal to the fixed offset, and no two buffers that
// need disjoint addresses overlap. InvalidArgument names the first fault. Shares no code with the
// planner. O((n + waits streams) log n) as a rule.
TIDEPOOL_EXPORT absl::Status ValidatePlan(const PlanProblem& problem,
                                          const std::vector<std::int64_t>& offsets,
                                          std::int64_t height);

// Converts the valid plan `offsets` of a valid problem to a PlacementPlan of the first `requests`
// buffers, which an iteration requests one by one. The remaining buffers are fixed obstacles. Fills
// each `clue`, so that a lookup is O(1). O(n log n).
TIDEPOOL_EXPORT std::shared_ptr<const PlacementPlan> ToPlacementPlan(
    const PlanProblem& problem, const std::vector<std::int64_t>& offsets, std::size_t requests);

}  // namespace tidepool

#endif  // TIDEPOOL_TRACE_PLAN_H_
