// SPDX-License-Identifier: Apache-2.0
// BestMaker: one search of the policy `best` for the fastest schedule. docs/design/policies.md has
// it as pseudo code ("The search").
//
// A *lead* is the fastest iteration found so far that may use the whole memory. Its addresses are
// planned afterwards. Where the plan is too high, the same iteration is tried with bytes of memory
// in *reserve*, and it is *repaired* buffer by buffer.
#ifndef TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_MAKER_H_
#define TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_MAKER_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/arithmetic.h"
#include "lib/base/budget/budget.h"
#include "lib/training/schedule/addresses/schedule_planning.h"
#include "policies/training/search/algorithm_choices.h"
#include "policies/training/search/repeated_search.h"
#include "policies/training/search/reserve_search.h"
#include "policies/training/transfers/iteration_search.h"
#include "tidepool/training/graph.h"
#include "tidepool/training/schedule.h"
#include "tidepool/training/schedule_request.h"

namespace tidepool::search {

// Not thread-safe. The arguments outlive the maker.
class BestMaker {
 public:
  // The graph is valid, and the request and the options are checked. The work is that of the
  // options, which have some; the time limit and the stop are those of `budget`.
  BestMaker(const TaskGraph& graph, const ScheduleRequest& request, const BestOptions& options,
            budget::Budget& budget);

  // Adds a valid schedule with the memory of the request. `Make` returns no slower one.
  void AddCandidate(const Schedule& schedule) { Keep(schedule); }
  // Adds a valid schedule with tasks on several streams. With fixed addresses it also plans them
  // again for the times of these streams, and adds the result.
  void AddConcurrentCandidate(const Schedule& schedule);
  // Returns the fastest schedule so far, if there is one.
  const Schedule& fastest() const { return fastest_; }

  absl::StatusOr<Schedule> Make();
  // Goes on in place of `Make`: searches one round with this work, of which each call has twice
  // that of the call before. Returns the fastest schedule so far.
  absl::StatusOr<Schedule> MakeRound(double work);
  // Begins or goes on with the leads of another search for the same graph and options in another
  // memory, where they are faster in this one.
  void TakeLeads(const BestMaker& other);
  // Whether no schedule is faster.
  bool IsFastest() const { return seconds_ <= bound_ * (1 + kEqualSeconds); }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr std::int64_t kNoHeight = std::numeric_limits<std::int64_t>::max();

  // Parts of a round's work for one kind of iteration.
  struct Shares {
    double lead = 0;     // of the search for the lead
    double reserve = 0;  // of the lead with memory in reserve, and of its plans of addresses
    double repair = 0;   // of repairs of a lead with a plan that does not fit

    double OfPlans() const { return reserve + repair; }
    double Sum() const { return lead + OfPlans(); }
  };
  // A kind of iteration, and the state of its search after the rounds so far.
  struct Kind {
    bool recomputes = false;
    bool in_parts = false;
    bool repeats = false;  // all micro-batches do the same
    Shares shares;

    // Choices of algorithms to search with: [0] where no data leaves for a short time, [1] where it
    // may. Empty: not searched so far.
    std::array<std::vector<Algorithms>, 2> choices;
    transfers::Iteration lead;           // the fastest that may use the whole memory
    bool sends_for_short_times = false;  // in the lead
    // The least reserve with a plan that fits, or the next one to try.
    std::int64_t reserve_bytes = 0;
    // The fastest iteration of this round with a reserve and a plan that fits. In pages, where all
    // fit: the fastest of all rounds.
    transfers::Iteration planned;
    schedule::StayOffsets planned_offsets;
    // A lead that is repaired, and its time before.
    transfers::Iteration repaired;
    schedule::StayOffsets repaired_offsets;
    double repaired_from = kNever;
    // The fastest iteration with a plan that fits, of all rounds, and whether it is changed
    // further: that of a search in less memory has room to spare here.
    transfers::Iteration fixed;
    schedule::StayOffsets fixed_offsets;
    bool tightens_fixed = false;
    // The time of the fastest schedule of other policies, and of kinds that may do no more.
    double seconds_to_beat = kNever;

    // Whether it may do all that another kind may do.
    bool Includes(const Kind& other) const {
      return recomputes >= other.recomputes && in_parts >= other.in_parts &&
             repeats <= other.repeats;
    }
  };
  struct Planned {
    Schedule late;
    schedule::FixedSchedule plan;
  };

  void AddKnown(Schedule schedule);
  void AddModnn();
  void AddWalk();
  void AddFirst();
  void AddRecomputing();
  absl::StatusOr<Schedule> Answer();
  bool AddOther(const Schedule& schedule);
  std::vector<Kind> Kinds() const;
  void SearchOwn();
  void SearchRound(double work);
  bool IsAsked(const Kind& kind) const;
  bool IsMuchSlower(const Kind& kind) const;
  void Advance(Kind& kind, double work);
  void ImproveLead(Kind& kind, double work);
  void ImprovePaged(Kind& kind, double work);
  void FindLead(Kind& kind, bool sends_for_short_times, double work);
  transfers::Iteration LeadWithReserve(const Kind& kind, std::int64_t bytes, double work);
  void SearchReserve(Kind& kind, double work);
  bool PlanWithReserve(Kind& kind, double work, transfers::Iteration iteration,
                       ReserveSearch& reserve);
  void RepairLead(Kind& kind, double work);
  absl::StatusOr<Planned> PlanNear(schedule::PlanEffort effort,
                                   const transfers::Iteration& iteration,
                                   const schedule::StayOffsets& near);
  bool Repair(const Kind& kind, const schedule::PlanEffort& effort, transfers::Iteration& iteration,
              schedule::StayOffsets& near);
  void Tighten(schedule::PlanEffort effort, transfers::Iteration iteration,
               schedule::StayOffsets near);
  std::int64_t PlannedHeight(const Schedule& schedule, const schedule::PlanEffort& effort);
  absl::StatusOr<schedule::FixedSchedule> PlanAndKeep(const Schedule& late,
                                                      schedule::PlanEffort effort);
  void PlanPostponed();
  void Keep(const Schedule& schedule);
  bool WantsPages() const { return request_.memory == ScheduleMemory::kPaged; }
  double SecondsOf(const Schedule& schedule) const;
  double TransferWork(double seconds) const;
  bool TakeWork(double work);
  bool HasEnded() { return work_left_ < 1e-9 || budget_.HasEnded(); }
  transfers::Iteration SearchWith(const Kind& kind, const Algorithms& algorithms, double work);
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
  const RepeatedSearch repeated_;
  transfers::IterationOptions search_;
  Schedule fastest_;         // with the kind of memory that the request asks for
  double seconds_ = kNever;  // of the fastest schedule
  std::vector<Kind> kinds_;
  Kind* advanced_ = nullptr;  // the kind that is searched; null: another policy is asked
  std::int64_t least_height_ = kNoHeight;  // of all plans of addresses
  double work_left_ = 0;                   // seconds of work for all rounds
  double plan_work_ = 0;                   // seconds of work left for plans of a kind in this round
  std::vector<Schedule> postponed_;        // of other policies, with a first plan that did not fit
  double plan_seconds_ = 0.005;            // of work, for a plan of another policy's schedule
  double bound_ = 0;                       // no schedule is faster
  bool has_begun_ = false;                 // MakeRound
};

}  // namespace tidepool::search

#endif  // TIDEPOOL_POLICIES_TRAINING_SEARCH_BEST_MAKER_H_
