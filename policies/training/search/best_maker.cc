// SPDX-License-Identifier: Apache-2.0
#include "policies/training/search/best_maker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/training/schedule/steps/in_pages.h"
#include "policies/training/search/best_policy.h"
#include "policies/training/search/late_memory.h"
#include "policies/training/search/other_schedules.h"
#include "policies/training/search/small_walk.h"
#include "policies/training/transfers/copy_rates.h"
#include "policies/training/transfers/graph_steps.h"
#include "tidepool/training/lower_bound.h"

namespace tidepool::search {
namespace {

constexpr char kTaken[] = "best: ";      // before the name of another policy
constexpr double kPostponedShare = 0.1;  // of the work, for plans of other policies' schedules
constexpr double kShareOfOther = 0.25;   // of the time limit, for policies that take long

// Returns a lower bound on the time of any schedule of the graph. It is lower if tasks may run
// again.
double BoundOf(const TaskGraph& graph, Machine machine, bool recomputes,
               const std::vector<double>& densities) {
  machine.devices.front().compute_streams = 1;  // tasks that run at once come later
  Schedule order;
  order.memory = ScheduleMemory::kPaged;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    order.steps.push_back({.kind = StepKind::kRun, .index = task});
    if (recomputes) order.steps.push_back(order.steps.back());
  }
  for (const double density : densities) {
    if (density >= 0) order.steps.push_back({.kind = StepKind::kOffload, .density = density});
  }
  return LowerBoundSeconds({&graph, 1}, order, machine);
}

bool RunsTasksAgain(const TaskGraph& graph, const Schedule& schedule) {
  const auto runs =
      std::count_if(schedule.steps.begin(), schedule.steps.end(),
                    [](const ScheduleStep& step) { return step.kind == StepKind::kRun; });
  return static_cast<std::size_t>(runs) > graph.tasks.size();
}

std::string NameOfTaken(const std::string& policy) {
  if (policy == kBestName || absl::StartsWith(policy, kTaken)) return policy;
  return absl::StrCat(kTaken, policy);
}

Machine WithOneDevice(Machine machine) {
  machine.devices.resize(1);
  return machine;
}

}  // namespace

BestMaker::BestMaker(requests::PolicyTable policies, const TaskGraph& graph,
                     const ScheduleRequest& request, const BestOptions& options,
                     budget::Budget& budget)
    : policies_(policies),
      graph_(graph),
      request_(request),
      options_(options),
      budget_(budget),
      machine_(WithOneDevice(request.machine)),
      repeated_(graph),
      fastest_(graph, request, options, machine_, budget),
      next_seed_(options.seed) {
  const SearchContext context = {graph_,    request_, options_, machine_,
                                 repeated_, budget_,  fastest_};
  for (const SharedKind& kind : KindsToSearch(repeated_.is_useful())) {
    kinds_.emplace_back(context, kind);
  }
}

absl::StatusOr<Schedule> BestMaker::Make() {
  AddFirst();
  SearchInRounds();
  AddRecomputing();
  return Answer();
}

absl::StatusOr<Schedule> BestMaker::MakeRound(double work_seconds) {
  const bool is_first = !std::exchange(has_begun_, true);
  if (is_first) AddFirst();
  WorkLeft left(work_seconds);
  const Effort effort = {work_seconds, next_seed_++};
  if (!IsFastest()) SearchRound(effort, left);
  if (is_first && !IsFastest()) AddAddressed();
  if (is_first) AddRecomputing();
  return Answer();
}

absl::StatusOr<Schedule> BestMaker::Answer() {
  PlanPostponed();
  absl::StatusOr<Schedule> answer = fastest_.Answer();
  if (answer.ok() && IsFastest() && options_.was_proved != nullptr) *options_.was_proved = true;
  return answer;
}

void BestMaker::TakeLeads(const BestMaker& other) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) kinds_[i].TakeLeads(other.kinds_[i]);
}

// Searches in rounds, each with twice the work of the one before it. The limits decide only where
// this sequence ends. So a longer limit finds all that a shorter one does, and on a slower machine
// the search ends after fewer rounds. A limit below the work of the first round makes that round
// smaller.
void BestMaker::SearchInRounds() {
  constexpr double kFirstSeconds = 2.0 / 15;  // four rounds have the work of the default limit
  WorkLeft left(options_.work_seconds);
  double work_seconds = std::min(kFirstSeconds, options_.work_seconds);
  SearchRound({work_seconds, next_seed_++}, left);
  if (!IsFastest()) AddAddressed();
  while (!left.HasEnded() && !budget_.HasEnded() && !IsFastest()) {
    work_seconds *= 2;
    SearchRound({work_seconds, next_seed_++}, left);
  }
}

// Neither the share of a kind nor the schedules that it must beat depend on kinds that may do more.
// So allowing parts, or tasks that run again, hardly ever makes the answer slower. Kinds with a
// lead that is much slower than the fastest schedule leave their shares to the first of the others.
void BestMaker::SearchRound(const Effort& effort, WorkLeft& left) {
  std::vector<KindSearch*> searched;
  double unused = 0;
  for (KindSearch& kind : kinds_) {
    if (!kind.IsAsked()) {
      left.Take(effort.work_seconds * kind.shares().Sum());
    } else if (kind.IsMuchSlower()) {
      unused += kind.shares().Sum();
    } else {
      searched.push_back(&kind);
    }
  }
  for (KindSearch* const kind : searched) {
    const double share = kind->shares().Sum() + std::exchange(unused, 0);
    if (left.HasEnded() || budget_.HasEnded() || IsFastest()) {
      left.Take(effort.work_seconds * share);
    } else {
      kind->Advance({effort.work_seconds * share / kind->shares().Sum(), effort.seed}, left);
    }
  }
  left.Take(effort.work_seconds * unused);
}

// Other policies that take little time come first, and those with addresses of their own after the
// first round of the search.
void BestMaker::AddFirst() {
  fastest_.RaiseBound(BoundOf(graph_, machine_, options_.recomputes, options_.densities));
  for (const Schedule& schedule : options_.known) AddKnown(schedule);
  ForEachQuickSchedule(policies_, graph_, request_,
                       [&](const Schedule& schedule) { return AddOther(schedule); });
  if (!IsFastest()) AddWalk();
}

// Keeps a schedule of an earlier call, or with addresses of its own, if it is valid and the
// fastest.
void BestMaker::AddKnown(Schedule schedule) {
  if (schedule.fingerprint != GraphFingerprint(graph_)) return;
  if (schedule.memory == ScheduleMemory::kPool || schedule.alignment != request_.placing.alignment)
    return;
  if (!options_.recomputes && RunsTasksAgain(graph_, schedule)) return;
  schedule.rounds.clear();  // an iteration at once may be one round
  if (!ValidateSchedule(graph_, schedule).ok()) return;
  schedule.policy = NameOfTaken(schedule.policy);
  if (WantsPages()) return fastest_.Keep(schedule::InPages(std::move(schedule)));
  const std::int64_t memory = memory_bytes();
  const bool is_fixed = schedule.memory == ScheduleMemory::kFixed;
  if (!is_fixed || !ValidateAddresses({&graph_, 1}, schedule, {&memory, 1}).ok()) return;
  fastest_.Keep(schedule);
}

// Keeps the schedule of another policy if it is the fastest. Returns whether a faster one is
// possible.
bool BestMaker::AddOther(const Schedule& schedule) {
  // Addresses change waits, so a schedule that is a little slower with pages may win with
  // addresses.
  constexpr double kFaster = 0.98;
  Schedule taken = schedule;
  transfers::CompressCopies(options_.densities, taken);
  taken.policy = NameOfTaken(schedule.policy);
  if (WantsPages()) {
    fastest_.Keep(taken);
    return !IsFastest();
  }
  if (IsFastest()) return false;
  if (fastest_.SecondsOf(taken) * kFaster >= fastest_.seconds()) return true;
  if (!FitsWithAddresses(taken, {.work_seconds = seconds_of_a_plan_, .seed = options_.seed})) {
    postponed_.push_back(std::move(taken));
  }
  return !IsFastest();
}

// Plans addresses for a paged schedule, with its memory taken late, and keeps it with them if that
// is the fastest. Returns whether they fit.
bool BestMaker::FitsWithAddresses(const Schedule& schedule, const schedule::PlanEffort& effort) {
  const absl::StatusOr<Schedule> late = TakeMemoryLate(graph_, schedule, machine_);
  if (!late.ok()) return false;
  const absl::StatusOr<schedule::FixedSchedule> fixed = fastest_.PlanAndKeep(*late, effort);
  return fixed.ok() && fixed->height <= memory_bytes();
}

// Plans other policies' schedules again that found no addresses at first, with more work.
void BestMaker::PlanPostponed() {
  if (postponed_.empty()) return;
  seconds_of_a_plan_ =
      options_.work_seconds * kPostponedShare / static_cast<double>(postponed_.size());
  for (const Schedule& schedule : std::exchange(postponed_, {})) AddOther(schedule);
}

// Asks policies with addresses of their own, which look at no clock and take time in the square of
// the tasks. Once there is a schedule, leaves them out where they would take too much of the limit.
void BestMaker::AddAddressed() {
  constexpr double kSecondsOfAPairOfTasks = 1e-8;
  constexpr double kShortSeconds = 0.05;
  const auto tasks = static_cast<double>(graph_.tasks.size());
  const bool is_long = tasks * tasks * kSecondsOfAPairOfTasks >
                       std::max(kShortSeconds, options_.time_limit_seconds * kShareOfOther);
  if (is_long && fastest_.seconds() < FastestSchedule::kNever) {
    if (options_.was_late != nullptr) *options_.was_late = true;
    return;
  }
  ForEachAddressedSchedule(policies_, graph_, request_, [&](const Schedule& schedule) {
    AddKnown(schedule);
    return true;
  });
}

// Walks through all schedules of a small graph. Then no other one that copies data as a whole is
// faster.
void BestMaker::AddWalk() {
  constexpr double kMostStates = 100'000;
  const bool has_limit = machine_.host.memory_bytes != MachineHost().memory_bytes;
  if (has_limit || !options_.densities.empty() || !IsForWalk(graph_)) return;
  const double states = std::min(kMostStates, StatesIn(options_.work_seconds));
  WalkAnswer answer = WalkSmallGraph(graph_, {.memory_bytes = memory_bytes(),
                                              .granule = request_.placing.alignment,
                                              .rates = transfers::RatesOfDevice(machine_, 0),
                                              .recomputes = options_.recomputes,
                                              .offloads = options_.offloads,
                                              .most_states = static_cast<std::size_t>(states),
                                              .below_seconds = fastest_.seconds(),
                                              .go_on = [&] { return !budget_.HasEnded(); }});
  if (!answer.is_complete) return;
  if (options_.part_bytes == 0) fastest_.RaiseBound(std::min(fastest_.seconds(), answer.seconds));
  if (answer.schedule.steps.empty()) return;
  AddOther(fastest_.AsPaged(std::move(answer.schedule)));
}

void BestMaker::AddRecomputing() {
  if (IsFastest() || !options_.recomputes) return;
  ForEachRecomputeSchedule(policies_, graph_, request_, options_.time_limit_seconds * kShareOfOther,
                           [&](const Schedule& schedule) { return AddOther(schedule); });
}

void BestMaker::AddConcurrentCandidate(const Schedule& schedule) {
  constexpr double kPlanShare = 0.1;  // of the work
  AddCandidate(schedule);
  if (WantsPages()) return;
  FitsWithAddresses(schedule::InPages(schedule),
                    {.work_seconds = options_.work_seconds * kPlanShare, .seed = options_.seed});
}

}  // namespace tidepool::search
