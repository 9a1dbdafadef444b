// SPDX-License-Identifier: Apache-2.0
// KindSearch: the search of the policy `best` for the fastest iteration of one kind.
// docs/design/policies.md has it as pseudo code ("The search").
//
// A *lead* is the fastest iteration found so far that may use the whole memory. Its addresses are
// planned afterwards. Where the plan is too high, the same iteration is tried with bytes of memory
// in *reserve*, and it is *repaired* buffer by buffer.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_KIND_SEARCH_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_KIND_SEARCH_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/budget/budget.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "policies/training/search/algorithm_choices.h"
#include "policies/training/search/fastest_schedule.h"
#include "policies/training/search/iteration_kind.h"
#include "policies/training/search/repeated_search.h"
#include "policies/training/search/reserve_search.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/machine.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// All kinds of one search have these.
struct SearchContext {
  const TaskGraph& graph;
  const ScheduleRequest& request;
  const BestOptions& options;
  const Machine& machine;  // with one device
  const RepeatedSearch& repeated;
  budget::Budget& budget;
  FastestSchedule& fastest;
};

// Not thread-safe. All that the context refers to outlives the search.
class KindSearch {
 public:
  KindSearch(const SearchContext& context, const SharedKind& shared)
      : context_(context), kind_(shared.kind), shares_(shared.shares) {}

  const WorkShares& shares() const { return shares_; }
  // Whether the options allow its choices.
  bool IsAsked() const;
  // Whether all its iterations so far are much slower than the fastest schedule.
  bool IsMuchSlower() const;
  // Searches one round, and adds its schedules to the context's fastest one. The work of each
  // step is taken from `left`; a step that exceeds it is left out.
  void Advance(const Effort& effort, WorkLeft& left);
  // Goes on with the iterations of another search of the same kind and graph, in another memory,
  // where they are faster in this one.
  void TakeLeads(const KindSearch& other);

 private:
  static constexpr double kNever = FastestSchedule::kNever;

  struct Lead {
    transfers::Iteration iteration;
    bool sends_for_short_times = false;  // data that is needed again soon may leave
  };
  struct PlannedIteration {
    transfers::Iteration iteration;
    schedule::StayOffsets offsets;
  };
  struct Plan {
    Schedule steps;
    schedule::FixedSchedule fixed;
  };

  // The lead.
  void ImproveLead(const Effort& effort);
  void FindLead(bool sends_for_short_times, const Effort& effort);
  transfers::Iteration SearchWith(const Algorithms& algorithms,
                                  const transfers::IterationOptions& options,
                                  double work_seconds) const;
  void Improve(const transfers::GraphProblemOptions& problem, const Effort& effort,
               transfers::Iteration& iteration) const;
  void ImproveInPages(const Effort& effort);

  // The lead with addresses. `seconds_left` is the work that is left for plans.
  void SearchReserve(const Effort& effort);
  transfers::Iteration LeadWithReserve(std::int64_t reserve_bytes, const Effort& effort) const;
  bool PlanWithReserve(const Effort& effort, transfers::Iteration iteration, ReserveSearch& reserve,
                       double& seconds_left);
  void RepairLead(const Effort& effort);
  void TakeLeadToRepair();
  bool Repair(const schedule::PlanEffort& effort, PlannedIteration& repaired, double& seconds_left);
  void Tighten(schedule::PlanEffort effort, PlannedIteration planned, double& seconds_left);
  absl::StatusOr<Plan> PlanFrom(schedule::PlanEffort effort, const transfers::Iteration& iteration,
                                const schedule::StayOffsets& start_offsets, double& seconds_left);

  transfers::GraphProblemOptions ProblemWith(bool sends_for_short_times,
                                             std::int64_t reserve_bytes = 0) const;
  double SendingStepsIn(double work_seconds) const;
  double SecondsToBeat() const { return context_.fastest.SecondsToBeat(kind_); }
  Schedule StepsOf(const transfers::Iteration& iteration) const;
  std::int64_t memory_bytes() const { return context_.machine.devices.front().memory_bytes; }

  const SearchContext context_;
  const IterationKind kind_;
  const WorkShares shares_;

  // Choices of algorithms to search with: [0] where no data leaves for a short time, [1] where it
  // may. Empty: not searched so far.
  std::array<std::vector<Algorithms>, 2> choices_;
  Lead lead_;
  transfers::Iteration best_in_pages_;
  // The least reserve with a plan that fits, or the next one to try.
  std::int64_t reserve_bytes_ = 0;
  PlannedIteration best_with_reserve_;  // of this round
  // A lead that is repaired, and its time before.
  PlannedIteration repaired_;
  double repaired_from_seconds_ = kNever;
  // The fastest iteration with a plan that fits. One of a search in less memory has room to spare
  // here, so it is tightened.
  PlannedIteration best_planned_;
  bool tightens_best_planned_ = false;
};

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_KIND_SEARCH_H_
