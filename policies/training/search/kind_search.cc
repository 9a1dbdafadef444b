// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/kind_search.h"

#include <algorithm>
#include <utility>

#include "policies/training/search/late_memory.h"
#include "policies/training/search/send_high_stays.h"
#include "policies/training/transfers/copy_rates.h"
#include "policies/training/transfers/faster_algorithms.h"
#include "policies/training/transfers/graph_steps.h"
#include "policies/training/transfers/rerun_search.h"

namespace tidepool::search {

using transfers::GraphProblemOptions;
using transfers::Iteration;

bool KindSearch::IsAsked() const {
  const BestOptions& options = context_.options;
  return (!kind_.recomputes || options.recomputes) && (!kind_.in_parts || options.part_bytes > 0);
}

// In pages the fastest schedule may be an improved lead of the kind itself.
bool KindSearch::IsMuchSlower() const {
  constexpr double kMuchSlower = 1.1;
  const double seconds = std::min(
      {lead_.iteration.seconds, best_in_pages_.seconds, best_with_reserve_.iteration.seconds});
  return !choices_[0].empty() && seconds > context_.fastest.seconds() * kMuchSlower;
}

void KindSearch::Advance(const Effort& effort, WorkLeft& left) {
  const auto take = [&](double share) { return left.Take(effort.work_seconds * share); };
  if (!take(shares_.lead)) return;
  ImproveLead(effort.Part(shares_.lead));
  if (IsMuchSlower()) return;
  if (context_.request.memory == ScheduleMemory::kPaged) {
    if (take(shares_.OfPlans())) ImproveInPages(effort.Part(shares_.OfPlans()));
    return;
  }
  if (!take(shares_.reserve)) return;
  SearchReserve(effort.Part(shares_.reserve));
  if (SecondsToBeat() == kNever && !lead_.sends_for_short_times &&
      take(shares_.lead / 4 + shares_.reserve)) {
    // No plan fits yet. Data that also leaves for short times may make room for one.
    lead_ = Lead();
    FindLead(/*sends_for_short_times=*/true, effort.Part(shares_.lead).Part(0.25));
    SearchReserve(effort.Part(shares_.reserve));
  }
  if (take(shares_.repair)) RepairLead(effort.Part(shares_.repair));
}

// Takes the other's lead, and its iteration with a plan that fits.
void KindSearch::TakeLeads(const KindSearch& other) {
  if (other.lead_.iteration.seconds < kNever) {
    Lead lead = other.lead_;
    transfers::Refit(context_.graph, ProblemWith(lead.sends_for_short_times), lead.iteration);
    if (lead.iteration.seconds < lead_.iteration.seconds) lead_ = std::move(lead);
  }
  const double seconds = other.best_planned_.iteration.seconds;
  if (other.memory_bytes() > memory_bytes() || seconds >= best_planned_.iteration.seconds) return;
  best_planned_ = other.best_planned_;
  transfers::KeepAway(context_.graph, ProblemWith(/*sends_for_short_times=*/true),
                      best_planned_.iteration);
  tightens_best_planned_ = true;
}

GraphProblemOptions KindSearch::ProblemWith(bool sends_for_short_times,
                                            std::int64_t reserve_bytes) const {
  const BestOptions& options = context_.options;
  return {.memory_bytes = memory_bytes(),
          .reserve_bytes = reserve_bytes,
          .granule = context_.request.placing.alignment,
          .rates = transfers::RatesOfDevice(context_.machine, 0),
          .densities = options.densities,
          .part_bytes = kind_.in_parts ? options.part_bytes : 0,
          .sends_for_short_times = sends_for_short_times,
          .offloads = options.offloads};
}

// Trying other transfers is several times as fast as trying other tasks that run again.
double KindSearch::SendingStepsIn(double work_seconds) const {
  const double faster = kind_.recomputes ? 5 : 10;
  return transfers::StepsIn(work_seconds) / 2 * faster;
}

// Searches for a lead from the start, takes it if it is faster than the one so far, and improves
// the faster of both. Data may also leave for short times if the graph is short, or if no iteration
// fits otherwise.
void KindSearch::ImproveLead(const Effort& effort) {
  constexpr std::size_t kShortGraph = 512;
  const bool is_short = context_.graph.tasks.size() <= kShortGraph;
  FindLead(/*sends_for_short_times=*/false, effort.Part(is_short ? 0.25 : 0.5));
  if (is_short || lead_.iteration.seconds == kNever) {
    FindLead(/*sends_for_short_times=*/true, effort.Part(0.25));
  }
  if (lead_.iteration.seconds == kNever) return;
  Improve(ProblemWith(lead_.sends_for_short_times), effort.Part(0.5), lead_.iteration);
}

void KindSearch::FindLead(bool sends_for_short_times, const Effort& effort) {
  const transfers::IterationOptions options = {.problem = ProblemWith(sends_for_short_times),
                                               .recomputes = kind_.recomputes,
                                               .seed = effort.seed};
  std::vector<Algorithms>& choices = choices_[sends_for_short_times ? 1 : 0];
  if (choices.empty()) choices = PromisingAlgorithms(context_.graph, options);
  for (const Algorithms& algorithms : choices) {
    Iteration next =
        SearchWith(algorithms, options, effort.work_seconds / static_cast<double>(choices.size()));
    if (next.seconds < lead_.iteration.seconds) lead_ = {std::move(next), sends_for_short_times};
  }
}

Iteration KindSearch::SearchWith(const Algorithms& algorithms,
                                 const transfers::IterationOptions& options,
                                 double work_seconds) const {
  budget::Budget& whole = context_.budget;
  budget::Budget choosing(whole, transfers::StepsIn(work_seconds) / 2, whole.SecondsLeft() / 2);
  budget::Budget sending(whole, SendingStepsIn(work_seconds));
  const transfers::GoOn go_on = [&](std::size_t steps) { return choosing.Take(steps); };
  const transfers::GoOn go_on_sending = [&](std::size_t steps) { return sending.Take(steps); };
  return kind_.repeats ? context_.repeated.Search(algorithms, options, go_on, go_on_sending)
                       : transfers::SearchIteration(context_.graph, algorithms, options, go_on,
                                                    go_on_sending);
}

// Changes the data that is sent in an iteration, and the tasks that run again.
void KindSearch::Improve(const GraphProblemOptions& problem, const Effort& effort,
                         Iteration& iteration) const {
  const bool changes_reruns = kind_.recomputes && problem.part_bytes == 0;
  const double work_seconds = changes_reruns ? effort.work_seconds / 2 : effort.work_seconds;
  if (changes_reruns) {
    budget::Budget changing(context_.budget, transfers::StepsIn(work_seconds));
    transfers::ChangeReruns(
        context_.graph, problem, effort.seed,
        [&](std::size_t steps) { return changing.Take(steps); }, iteration);
  }
  budget::Budget sending(context_.budget, SendingStepsIn(work_seconds));
  transfers::SendOtherData(
      effort.seed, [&](std::size_t steps) { return sending.Take(steps); }, iteration);
  transfers::UseFasterAlgorithms(context_.graph, problem, iteration);
}

// Takes the lead if it is the fastest iteration of its kind so far, and improves that one. The lead
// itself stays as it is, so it is the same in pages and with fixed addresses.
void KindSearch::ImproveInPages(const Effort& effort) {
  if (lead_.iteration.seconds < best_in_pages_.seconds) best_in_pages_ = lead_.iteration;
  if (best_in_pages_.seconds == kNever) return;
  Improve(ProblemWith(lead_.sends_for_short_times), effort, best_in_pages_);
  context_.fastest.Keep(StepsOf(best_in_pages_), kind_);
}

// Looks for the least reserve with which the lead has a plan of addresses that fits: enlarges the
// reserve until one fits, then makes it smaller again.
void KindSearch::SearchReserve(const Effort& effort) {
  constexpr int kLeastTries = 2;
  constexpr int kMostTries = 12;  // until one fits
  constexpr double kOfATry = 0.1;
  constexpr double kFaster = 0.999;
  best_with_reserve_ = PlannedIteration();
  if (lead_.iteration.seconds * kFaster >= SecondsToBeat()) return;
  ReserveSearch reserve(memory_bytes(), reserve_bytes_);
  const Effort of_a_try = effort.Part(kOfATry);
  double seconds_left = effort.work_seconds;
  const auto goes_on = [&](int tries) {
    if (context_.fastest.IsProved() || context_.budget.HasEnded() || tries == kMostTries)
      return false;
    if (reserve.next() > memory_bytes()) return false;
    return tries < kLeastTries || best_with_reserve_.iteration.runs.empty() || seconds_left > 0;
  };
  for (int tries = 0; goes_on(tries); ++tries) {
    Iteration iteration = LeadWithReserve(reserve.next(), of_a_try);
    seconds_left -= of_a_try.work_seconds;
    const bool may_be_faster = iteration.seconds * kFaster < SecondsToBeat();
    if (may_be_faster && !PlanWithReserve(of_a_try, std::move(iteration), reserve, seconds_left))
      continue;
    if (reserve.next() == 0) return;
    reserve.Suffices();  // only a smaller reserve makes it faster
  }
}

// Returns the lead with `reserve_bytes` of memory left free.
Iteration KindSearch::LeadWithReserve(std::int64_t reserve_bytes, const Effort& effort) const {
  Iteration iteration = lead_.iteration;
  if (reserve_bytes == 0) return iteration;
  const GraphProblemOptions problem = ProblemWith(lead_.sends_for_short_times, reserve_bytes);
  transfers::Refit(context_.graph, problem, iteration);
  if (iteration.seconds < kNever) Improve(problem, effort, iteration);
  return iteration;
}

// Plans the addresses of an iteration with the next reserve. Returns whether they fit.
bool KindSearch::PlanWithReserve(const Effort& effort, Iteration iteration, ReserveSearch& reserve,
                                 double& seconds_left) {
  // A plan in less work is hardly better than one without a search.
  constexpr double kLeastWork = 0.005;
  absl::StatusOr<Plan> plan =
      PlanFrom({.work_seconds = std::max(effort.work_seconds, kLeastWork), .seed = effort.seed},
               iteration, {}, seconds_left);
  const bool fits = plan.ok() && plan->fixed.fits;
  if (!fits) reserve.Exceeds(plan.ok() ? plan->fixed.height : 2 * memory_bytes());
  reserve_bytes_ = std::min(reserve.next(), memory_bytes() / 2);
  if (fits && iteration.seconds < best_with_reserve_.iteration.seconds) {
    best_with_reserve_ = {std::move(iteration), std::move(plan->fixed.offsets)};
  }
  return fits;
}

// Repairs the lead if its plan does not fit. Each plan begins with the offsets of the plan before
// it, which may be of the round before. Then improves the repaired lead, or else the iteration with
// a reserve, as long as plans fit.
void KindSearch::RepairLead(const Effort& effort) {
  constexpr double kOfAPlan = 1.0 / 16;
  const Iteration& lead = lead_.iteration;
  if (lead.seconds >= SecondsToBeat() || context_.fastest.IsProved()) return;
  const schedule::PlanEffort of_a_plan = {.work_seconds = effort.work_seconds * kOfAPlan,
                                          .seed = effort.seed};
  double seconds_left = effort.work_seconds;
  if (tightens_best_planned_) {
    seconds_left /= 2;
    Tighten(of_a_plan, best_planned_, seconds_left);
    seconds_left += effort.work_seconds / 2;
  }
  TakeLeadToRepair();
  if (Repair(of_a_plan, repaired_, seconds_left)) {
    Tighten(of_a_plan, repaired_, seconds_left);
  } else if (!best_with_reserve_.iteration.runs.empty()) {
    PlannedIteration planned = best_with_reserve_;
    transfers::Refit(context_.graph, ProblemWith(lead_.sends_for_short_times), planned.iteration);
    Tighten(of_a_plan, std::move(planned), seconds_left);
  }
}

// Begins again with the lead if that is faster than the repaired one was before its repair, or if
// the repaired one is too slow now.
void KindSearch::TakeLeadToRepair() {
  constexpr double kFaster = 0.998;
  const Iteration& lead = lead_.iteration;
  const bool is_faster = lead.seconds < repaired_from_seconds_ * kFaster;
  if (!is_faster && repaired_.iteration.seconds < SecondsToBeat()) return;
  repaired_ = {.iteration = lead, .offsets = {}};
  repaired_from_seconds_ = lead.seconds;
}

// Lets more data leave until the plan of an iteration fits. Returns false if the iteration gets as
// slow as the fastest schedule first.
bool KindSearch::Repair(const schedule::PlanEffort& effort, PlannedIteration& repaired,
                        double& seconds_left) {
  constexpr int kMostPlans = 12;
  Iteration& iteration = repaired.iteration;
  for (int plans = 0; plans < kMostPlans && iteration.seconds < SecondsToBeat(); ++plans) {
    if (seconds_left <= 0) return false;
    const bool is_first = repaired.offsets.empty();
    absl::StatusOr<Plan> plan = PlanFrom(effort, iteration, repaired.offsets, seconds_left);
    if (!plan.ok()) return false;
    repaired.offsets = std::move(plan->fixed.offsets);
    if (plan->fixed.fits) return true;
    // Planned once more from these offsets, fewer bytes lie above the memory.
    if (is_first) continue;
    const auto go_on = [&](std::size_t steps) {
      seconds_left -= static_cast<double>(steps) / SendingStepsIn(1);
      return seconds_left > 0 && !context_.budget.HasEnded();
    };
    if (!SendHighStays(plan->steps, plan->fixed.high_stays, go_on, iteration)) return false;
    transfers::FindTimes(iteration);
  }
  return false;
}

// Changes at random which data is away in an iteration with a plan that fits. Keeps a change that
// makes the iteration faster and still has a plan that fits.
void KindSearch::Tighten(schedule::PlanEffort effort, PlannedIteration planned,
                         double& seconds_left) {
  constexpr double kFaster = 0.9999;
  constexpr double kShortPlan = 0.1;  // of the work of other plans
  constexpr int kMostFails = 20;      // one after the other
  constexpr int kMostChanges = 2000;
  effort.work_seconds *= kShortPlan;
  for (int fails = 0; fails < kMostFails && seconds_left > 0 && !context_.budget.HasEnded();) {
    Iteration next = planned.iteration;
    if (context_.fastest.IsProved() ||
        !transfers::ChangeForLess(next.problem.transfers, next.seconds * kFaster, kMostChanges,
                                  ++effort.seed, next.is_away)) {
      return;
    }
    transfers::FindTimes(next);
    absl::StatusOr<Plan> plan = PlanFrom(effort, next, planned.offsets, seconds_left);
    const bool fits = plan.ok() && plan->fixed.fits;
    fails = fits ? 0 : fails + 1;
    if (fits) planned = {std::move(next), std::move(plan->fixed.offsets)};
  }
}

// Plans the addresses of an iteration, beginning with the `start_offsets`, and keeps it with them
// if that is the fastest. Takes the work from `seconds_left`.
absl::StatusOr<KindSearch::Plan> KindSearch::PlanFrom(schedule::PlanEffort effort,
                                                      const Iteration& iteration,
                                                      const schedule::StayOffsets& start_offsets,
                                                      double& seconds_left) {
  constexpr double kSecondsOfAStep = 2e-6;  // of work beside the plan
  absl::StatusOr<Schedule> late =
      TakeMemoryLate(context_.graph, StepsOf(iteration), context_.machine);
  if (!late.ok()) return late.status();
  seconds_left -= effort.work_seconds + kSecondsOfAStep * static_cast<double>(late->steps.size());
  if (!start_offsets.empty()) effort.start_offsets = &start_offsets;
  absl::StatusOr<schedule::FixedSchedule> fixed =
      context_.fastest.PlanAndKeep(*late, effort, kind_);
  if (!fixed.ok()) return fixed.status();
  if (fixed->fits && iteration.seconds < best_planned_.iteration.seconds) {
    best_planned_ = {iteration, fixed->offsets};
  }
  return Plan{*std::move(late), *std::move(fixed)};
}

Schedule KindSearch::StepsOf(const Iteration& iteration) const {
  Schedule schedule = context_.fastest.AsPaged(
      transfers::MakeSteps(context_.graph, iteration.runs, iteration.problem, iteration.actions));
  transfers::CompressCopies(context_.options.densities, schedule);
  return schedule;
}

}  // namespace tidepool::search
