// SPDX-License-Identifier: Apache-2.0
// BestMaker: the schedule of the policy `best`.
#ifndef TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BEST_MAKER_H_
#define TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BEST_MAKER_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/arithmetic.h"
#include "lib/base/budget/budget.h"
#include "lib/training/schedule/schedule_planning.h"
#include "policies/training/offload/algorithm_choices.h"
#include "policies/training/offload/memory_cuts.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/schedule/graph.h"
#include "tidepool/schedule/offload_policy.h"
#include "tidepool/schedule/schedule.h"

namespace tidepool::offload_policies {

// Not thread-safe. The arguments outlive the maker.
class BestMaker {
 public:
  // The graph is valid, and the request and the options are checked. The work is that of the
  // options, which have some; the time limit and the stop are those of `budget`.
  BestMaker(const TaskGraph& graph, const ScheduleRequest& request, const BestOptions& options,
            budget::Budget& budget);

  // Records a valid schedule with the memory of the request. `Make` returns no slower one.
  void Know(const Schedule& schedule) { Keep(schedule); }
  // Does the same for a valid schedule with tasks on several streams. Without pages it also plans
  // the addresses that its times give.
  void KnowConcurrent(const Schedule& schedule);
  // Returns the fastest schedule so far, if there is one.
  const Schedule& fastest() const { return fastest_; }

  absl::StatusOr<Schedule> Make();

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::int64_t kNoHeight = std::numeric_limits<std::int64_t>::max();

  // Parts of a round's work for one kind of iteration.
  struct Shares {
    double lead = 0;    // of the search for an iteration that may use the whole memory
    double tries = 0;   // of that with memory in reserve, and of plans of addresses
    double repair = 0;  // of repairs where its plan does not fit

    double Sum() const { return lead + tries + repair; }
  };
  // A kind of iteration, and the state of its search after the rounds so far.
  struct Kind {
    bool recomputes = false;
    bool in_parts = false;
    Shares shares;

    // To begin with, without and with data that leaves for short times; empty: not searched so far.
    std::array<std::vector<Algorithms>, 2> choices;
    transfers::Iteration lead;           // the fastest that may use the whole memory
    bool sends_for_short_times = false;  // in the lead
    // The least reserve with a plan that fits, or the next one to try.
    std::int64_t reserve_bytes = 0;
    // The fastest iteration of this round with a reserve and a plan that fits.
    transfers::Iteration planned;
    schedule::StayOffsets planned_offsets;
    // A lead that is repaired, and its time before.
    transfers::Iteration repaired;
    schedule::StayOffsets repaired_offsets;
    double repaired_from = kNever;
  };
  struct Planned {
    Schedule late;
    schedule::FixedSchedule plan;
  };

  void TakeKnown(Schedule schedule);
  void TakeModnn();
  bool TakeOther(const Schedule& schedule);
  std::vector<Kind> Kinds() const;
  void SearchOwn();
  void SearchRound(double work, std::vector<Kind>& kinds);
  void Advance(Kind& kind, double work);
  void ImproveLead(Kind& kind, double work);
  void FindLead(Kind& kind, bool sends_for_short_times, double work);
  transfers::Iteration LeadWithReserve(const Kind& kind, std::int64_t bytes, double work);
  void TakeWithReserve(Kind& kind, double work);
  bool PlanWithReserve(Kind& kind, double work, transfers::Iteration iteration, MemoryCuts& cuts);
  void TakeRepaired(Kind& kind, double work);
  absl::StatusOr<Planned> PlanNear(schedule::PlanEffort effort,
                                   const transfers::Iteration& iteration,
                                   const schedule::StayOffsets& near);
  bool Repair(const schedule::PlanEffort& effort, transfers::Iteration& iteration,
              schedule::StayOffsets& near);
  void Tighten(schedule::PlanEffort effort, transfers::Iteration iteration,
               schedule::StayOffsets near);
  std::int64_t HeightOfTaken(const Schedule& schedule, const schedule::PlanEffort& effort);
  absl::StatusOr<schedule::FixedSchedule> KeepPlanned(const Schedule& late,
                                                      schedule::PlanEffort effort);
  void TakeLate();
  void Keep(const Schedule& schedule);
  bool WantsPages() const { return request_.memory == ScheduleMemory::kPaged; }
  bool IsFastest() const { return seconds_ <= bound_ * (1 + kEqualSeconds); }
  double SecondsOf(const Schedule& schedule) const;
  double SendingWork(double seconds) const;
  double Take(double work);
  bool HasEnded() { return work_left_ < 1e-9 || budget_.HasEnded(); }
  transfers::Iteration SearchWith(const Algorithms& algorithms, double work);
  void Improve(double work, transfers::Iteration& iteration);
  std::string MemoryText() const;
  absl::Status DoesNotFit() const;
  absl::Status HasNoPlan() const;
  Schedule StepsOf(const transfers::Iteration& iteration) const;
  std::int64_t memory_bytes() const { return machine_.devices.front().memory_bytes; }

  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  const BestOptions& options_;
  budget::Budget& budget_;
  Machine machine_;  // with one device
  transfers::IterationOptions search_;
  Schedule fastest_;                       // of the memory that the request asks for
  double seconds_ = kNever;                // of the fastest schedule
  std::int64_t least_height_ = kNoHeight;  // of all plans of addresses
  double work_left_ = 0;                   // seconds of work for all rounds
  double plan_work_ = 0;         // seconds of work for plans that are left to a kind in a round
  std::vector<Schedule> late_;   // of other policies, with addresses that did not fit at once
  double plan_seconds_ = 0.005;  // of work, for a plan of another policy's schedule
  double bound_ = 0;             // no schedule is faster, with or without tasks that run again
};

}  // namespace tidepool::offload_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BEST_MAKER_H_
