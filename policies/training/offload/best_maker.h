// SPDX-License-Identifier: Apache-2.0
// BestMaker: the schedule of the policy `best`.
#ifndef TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BEST_MAKER_H_
#define TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BEST_MAKER_H_

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  // The graph is valid, and the request and the options are checked.
  BestMaker(const TaskGraph& graph, const ScheduleRequest& request, const BestOptions& options);

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

  // Parts of the work for one kind of search.
  struct Shares {
    double first = 0;    // of the first search
    double again = 0;    // of each later one, with memory in reserve; in pages, of ChangeReruns
    double plan = 0;     // of the plan of each schedule
    int most_tries = 1;  // searches, each with a plan; in pages, until one finds an iteration
    double until = 1;    // of the time limit, since its begin: at least the parts so far
  };
  struct SearchKind {
    bool recomputes = false;
    bool in_parts = false;
    Shares shares;
  };
  // Searches of one kind with fixed addresses.
  struct OwnTries {
    explicit OwnTries(std::int64_t memory_bytes) : cuts(memory_bytes) {}

    int done = 0;             // searches before the one that runs
    double fastest = kNever;  // the time without a reserve
    MemoryCuts cuts;
  };
  struct RepairShares {
    double first = 0;  // of the search in which data at home stays
    double again = 0;  // of each improvement of the data that is away
    double plan = 0;   // of the plan of each schedule
    double all = 0;    // of all plans, their schedules and these improvements
    double until = 1;
  };
  struct Planned {
    Schedule late;
    schedule::FixedSchedule plan;
  };

  void TakeKnown(Schedule schedule);
  void TakeModnn();
  bool TakeOther(const Schedule& schedule);
  std::vector<SearchKind> SearchKinds() const;
  void SearchOwn();
  void TakeInPages(const Shares& shares);
  void TakeWithAddresses(const Shares& shares);
  transfers::Iteration SearchWithoutReserve(const Shares& shares, int& tries);
  bool TakeIteration(const Shares& shares, transfers::Iteration iteration, OwnTries& tries);
  void AllowShortAbsences(const Shares& shares, const OwnTries& tries);
  void TakeRepaired(const RepairShares& shares);
  transfers::Iteration FirstToRepair(double share);
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
  bool IsFastest() const { return seconds_ <= bound_ * (1 + kEqual); }
  double SecondsOf(const Schedule& schedule) const;
  double WorkSeconds() const;
  double SecondsLeft(double until = 1) const;
  double SendingWork(double seconds) const;
  transfers::Iteration Search(double share) const;
  transfers::Iteration SearchWith(const Algorithms& algorithms, double share) const;
  std::string MemoryText() const;
  absl::Status DoesNotFit() const;
  absl::Status HasNoPlan() const;
  Schedule StepsOf(const transfers::Iteration& iteration) const;
  std::int64_t memory_bytes() const { return machine_.devices.front().memory_bytes; }

  // Relative differences of times below this are rounding errors.
  static constexpr double kEqual = 1e-9;

  const TaskGraph& graph_;
  const ScheduleRequest& request_;
  const BestOptions& options_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Machine machine_;  // with one device
  transfers::IterationOptions search_;
  Schedule fastest_;                       // of the memory that the request asks for
  double seconds_ = kNever;                // of the fastest schedule
  std::int64_t least_height_ = kNoHeight;  // of all plans of addresses
  double until_ = 1;             // of the time limit: the end of the kind of search that runs
  double repair_seconds_ = 0;    // of work that are left for repairs
  transfers::Iteration first_;   // of whole data, without a reserve; empty: none fits
  std::vector<Schedule> late_;   // of other policies, with addresses that did not fit at once
  double plan_seconds_ = 0.005;  // of work, for a plan of another policy's schedule
  double bound_ = 0;             // no schedule is faster, with or without tasks that run again
};

}  // namespace tidepool::offload_policies

#endif  // TIDEPOOL_POLICIES_TRAINING_OFFLOAD_BEST_MAKER_H_
