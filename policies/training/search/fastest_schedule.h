// SPDX-License-Identifier: Apache-2.0
// FastestSchedule: the fastest schedule that a search has found so far.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_FASTEST_SCHEDULE_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_FASTEST_SCHEDULE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/arithmetic.h"
#include "lib/base/budget/budget.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "policies/training/search/iteration_kind.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// Not thread-safe. The arguments outlive it.
class FastestSchedule {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  // The kind of schedules of other policies: all kinds include it.
  static constexpr IterationKind kOfOthers = {.repeats = true};

  // `machine` has one device.
  FastestSchedule(const TaskGraph& graph, const ScheduleRequest& request,
                  const BestOptions& options, const Machine& machine, budget::Budget& budget)
      : graph_(graph), request_(request), options_(options), machine_(machine), budget_(budget) {}

  // Keeps a valid schedule, of an iteration of `kind`, if it is the fastest.
  void Keep(const Schedule& schedule, const IterationKind& kind = kOfOthers);
  // Plans addresses for a paged schedule. Keeps it with them if they fit and it is the fastest.
  absl::StatusOr<schedule::FixedSchedule> PlanAndKeep(const Schedule& paged,
                                                      schedule::PlanEffort effort,
                                                      const IterationKind& kind = kOfOthers);
  // No schedule is faster than `bound_seconds`.
  void RaiseBound(double bound_seconds) {
    bound_seconds_ = std::max(bound_seconds_, bound_seconds);
  }

  const Schedule& schedule() const { return schedule_; }
  // Returns its simulated time; infinite without one.
  double seconds() const { return seconds_; }
  // Returns the least time of all schedules so far, with the memory that the request asks for, of
  // the kinds that `kind` includes. So its answer does not depend on kinds with more choices.
  double SecondsToBeat(const IterationKind& kind) const;
  // Whether no schedule is faster.
  bool IsProved() const { return seconds_ <= bound_seconds_ * (1 + kEqualSeconds); }
  // Returns the schedule; ResourceExhausted if none fitted.
  absl::StatusOr<Schedule> Answer() const;

  // Returns steps of this search as a paged schedule of the graph.
  Schedule AsPaged(Schedule steps) const;
  // Returns the simulated time of a schedule; infinite for one that does not fit, or sends data
  // that must stay.
  double SecondsOf(const Schedule& schedule) const;

 private:
  static constexpr std::int64_t kNoHeight = std::numeric_limits<std::int64_t>::max();

  void NoteSeconds(const IterationKind& kind, double seconds);
  std::int64_t memory_bytes() const { return machine_.devices.front().memory_bytes; }
  std::string MemoryText() const;
  absl::Status Refusal() const;

  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  const BestOptions& options_;
  const Machine& machine_;
  budget::Budget& budget_;
  Schedule schedule_;
  double seconds_ = kNever;
  double bound_seconds_ = 0;
  std::vector<std::pair<IterationKind, double>> seconds_by_kind_;  // the least of each
  std::int64_t least_height_ = kNoHeight;                          // of all plans of addresses
};

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_FASTEST_SCHEDULE_H_
