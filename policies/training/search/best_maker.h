// SPDX-License-Identifier: Apache-2.0
// BestMaker: one search of the policy `best` for the fastest schedule, in rounds. It asks other
// policies, and searches each kind of iterations (KindSearch). docs/design/policies.md has it as
// pseudo code ("The search").
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_MAKER_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_MAKER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/budget/budget.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "policies/training/requests/policy_table.h"
#include "policies/training/search/fastest_schedule.h"
#include "policies/training/search/iteration_kind.h"
#include "policies/training/search/kind_search.h"
#include "policies/training/search/repeated_search.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// Not thread-safe. The arguments outlive the maker.
class BestMaker {
 public:
  // The graph is valid, and the request and the options are checked. The work is that of the
  // options, which have some; the time limit and the stop are those of `budget`.
  BestMaker(requests::PolicyTable policies, const TaskGraph& graph, const ScheduleRequest& request,
            const BestOptions& options, budget::Budget& budget);
  BestMaker(const BestMaker&) = delete;
  BestMaker& operator=(const BestMaker&) = delete;

  // Adds a valid schedule with the memory of the request. `Make` returns no slower one.
  void AddCandidate(const Schedule& schedule) { fastest_.Keep(schedule); }
  // Adds a valid schedule with tasks on several streams. With fixed addresses it also plans them
  // again for the times of these streams, and adds the result.
  void AddConcurrentCandidate(const Schedule& schedule);
  // Returns the fastest schedule so far, if there is one.
  const Schedule& fastest() const { return fastest_.schedule(); }

  absl::StatusOr<Schedule> Make();
  // Goes on in place of `Make`: searches one round with this work, of which each call has twice
  // that of the call before. Returns the fastest schedule so far.
  absl::StatusOr<Schedule> MakeRound(double work_seconds);
  // Begins or goes on with the leads of another search for the same graph and options in another
  // memory, where they are faster in this one.
  void TakeLeads(const BestMaker& other);
  // Whether no schedule is faster.
  bool IsFastest() const { return fastest_.IsProved(); }

 private:
  // Schedules of other policies.
  void AddFirst();
  void AddKnown(Schedule schedule);
  void AddAddressed();
  void AddWalk();
  void AddRecomputing();
  bool AddOther(const Schedule& schedule);
  void PlanPostponed();
  bool FitsWithAddresses(const Schedule& schedule, const schedule::PlanEffort& effort);

  // The search itself.
  void SearchInRounds();
  void SearchRound(const Effort& effort, WorkLeft& left);
  absl::StatusOr<Schedule> Answer();

  bool WantsPages() const { return request_.memory == ScheduleMemory::kPaged; }
  std::int64_t memory_bytes() const { return machine_.devices.front().memory_bytes; }

  const requests::PolicyTable policies_;
  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  const BestOptions& options_;
  budget::Budget& budget_;
  const Machine machine_;  // with one device
  const RepeatedSearch repeated_;
  FastestSchedule fastest_;
  std::vector<KindSearch> kinds_;
  std::uint64_t next_seed_;           // of the next round
  std::vector<Schedule> postponed_;   // of other policies, with a first plan that did not fit
  double seconds_of_a_plan_ = 0.005;  // of work, for a plan of another policy's schedule
  bool has_begun_ = false;            // MakeRound
};

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_MAKER_H_
