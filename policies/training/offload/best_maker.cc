// SPDX-License-Identifier: Apache-2.0
#include "policies/training/offload/best_maker.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/text/sizes.h"
#include "lib/training/schedule/schedule_planning.h"
#include "policies/training/offload/in_pages.h"
#include "policies/training/offload/late_memory.h"
#include "policies/training/offload/memory_cuts.h"
#include "policies/training/offload/modnn_policy.h"
#include "policies/training/offload/option_names.h"
#include "policies/training/offload/other_schedules.h"
#include "policies/training/offload/send_high_stays.h"
#include "policies/training/transfers/graph_steps.h"
#include "policies/training/transfers/work_budget.h"
#include "tidepool/schedule/lower_bound.h"
#include "tidepool/schedule/program.h"

namespace tidepool::offload_policies {
namespace {

using transfers::Iteration;
using transfers::WorkBudget;

constexpr char kOwnName[] = "best";
constexpr char kTaken[] = "best: ";     // before the name of another policy
constexpr double kLatePlanShare = 0.1;  // of the work: late plans of other policies' schedules

// Returns a time that no schedule of the graph beats. Tasks that run again lower it.
double BoundOf(const TaskGraph& graph, const Machine& machine, bool recomputes,
               const std::vector<double>& densities) {
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

// Returns the bytes of data that is on the device when an iteration begins.
std::int64_t BytesAtHome(const TaskGraph& graph, std::int64_t granule) {
  std::int64_t bytes = 0;
  for (const GraphData& data : graph.data) {
    if (data.before != DataHome::kDevice) continue;
    bytes += (data.bytes + granule - 1) / granule * granule;
  }
  return bytes;
}

bool RunsTasksAgain(const TaskGraph& graph, const Schedule& schedule) {
  const auto runs =
      std::count_if(schedule.steps.begin(), schedule.steps.end(),
                    [](const ScheduleStep& step) { return step.kind == StepKind::kRun; });
  return static_cast<std::size_t>(runs) > graph.tasks.size();
}

std::string NameOfTaken(const std::string& policy) {
  if (policy == kOwnName || absl::StartsWith(policy, kTaken)) return policy;
  return absl::StrCat(kTaken, policy);
}

std::string LargestTaskText(const TaskGraph& graph) {
  const GraphTotals totals = TotalsOf(graph);
  return absl::StrCat("the largest task, ", InQuotes(graph.tasks[totals.largest_task_index].name),
                      ", uses ", text::ExactSize(totals.largest_task), " alone");
}

}  // namespace

BestMaker::BestMaker(const TaskGraph& graph, const ScheduleRequest& request,
                     const BestOptions& options)
    : graph_(graph), request_(request), options_(options), machine_(request.machine) {
  machine_.devices.resize(1);
  search_ = {.problem = {.memory_bytes = memory_bytes(),
                         .granule = request.placing.alignment,
                         .rates = transfers::RatesOfDevice(machine_, 0),
                         .densities = options.densities},
             .recomputes = options.recomputes,
             .seed = options.seed};
}

double BestMaker::WorkSeconds() const {
  return options_.work_seconds > 0 ? options_.work_seconds : options_.time_limit_seconds;
}

// Returns the rest of a part of the time limit; 0 at a stop. Notes that nothing is left.
double BestMaker::SecondsLeft(double until) const {
  if (options_.stop.stop_requested()) return 0;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
  const double left = std::max(options_.time_limit_seconds * until - passed.count(), 0.0);
  if (left == 0 && options_.was_late != nullptr) *options_.was_late = true;
  return left;
}

// Returns the work that a search for data that is sent does in these seconds. A set of transfers is
// tried several times as fast as an iteration with other tasks.
double BestMaker::SendingWork(double seconds) const {
  const double faster = search_.recomputes ? 5 : 10;
  return transfers::WorkOf(seconds) / 2 * faster;
}

Iteration BestMaker::SearchWith(const Algorithms& algorithms, double share) const {
  // Both clocks run from here on.
  WorkBudget choosing(transfers::WorkOf(WorkSeconds()) * share / 2, SecondsLeft(until_) / 2,
                      options_.stop);
  WorkBudget sending(SendingWork(WorkSeconds() * share), SecondsLeft(until_), options_.stop);
  Iteration iteration = transfers::SearchIteration(
      graph_, algorithms, search_, [&](std::size_t done) { return choosing.Take(done); },
      [&](std::size_t done) { return sending.Take(done); });
  if ((choosing.is_late() || sending.is_late()) && options_.was_late != nullptr) {
    *options_.was_late = true;
  }
  return iteration;
}

// Searches with some choices of algorithms, in a share of the time.
Iteration BestMaker::Search(double share) const {
  Iteration best;
  const std::vector<Algorithms> choices = PromisingAlgorithms(graph_, search_);
  for (const Algorithms& algorithms : choices) {
    Iteration next = SearchWith(algorithms, share / static_cast<double>(choices.size()));
    if (best.actions.empty() || next.seconds < best.seconds) best = std::move(next);
  }
  return best;
}

std::string BestMaker::MemoryText() const {
  std::string text = absl::StrCat("the memory of ", text::ExactSize(memory_bytes()));
  const std::int64_t host = machine_.host.memory_bytes;
  if (host == MachineHost().memory_bytes) return text;
  return absl::StrCat(text, " and to the host's memory of ", text::ExactSize(host));
}

absl::Status BestMaker::DoesNotFit() const {
  const std::int64_t at_home = BytesAtHome(graph_, request_.placing.alignment);
  if (at_home > memory_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no schedule keeps to the memory of ", text::ExactSize(memory_bytes()),
                     ": data at home on the device, such as weights, takes ",
                     text::ExactSize(at_home), " when the iteration begins"));
  }
  return absl::ResourceExhaustedError(absl::StrCat("no schedule was found that keeps to ",
                                                   MemoryText(), "; ", LargestTaskText(graph_)));
}

absl::Status BestMaker::HasNoPlan() const {
  if (least_height_ == kNoHeight) return DoesNotFit();
  return absl::ResourceExhaustedError(absl::StrCat(
      "no plan of addresses was found that keeps to ", MemoryText(), ": the lowest one needs ",
      text::ExactSize(least_height_), "; ", LargestTaskText(graph_), "; pages need no plan"));
}

Schedule BestMaker::StepsOf(const Iteration& iteration) const {
  Schedule schedule =
      transfers::MakeSteps(graph_, iteration.runs, iteration.made, iteration.actions);
  schedule.policy = kOwnName;
  schedule.fingerprint = GraphFingerprint(graph_);
  schedule.memory = ScheduleMemory::kPaged;
  schedule.alignment = request_.placing.alignment;
  transfers::CompressCopies(options_.densities, schedule);
  return schedule;
}

// Returns the simulated time; infinite for a schedule that does not fit.
double BestMaker::SecondsOf(const Schedule& schedule) const {
  const absl::StatusOr<Program> program = LowerSchedule({&graph_, 1}, schedule, machine_);
  if (!program.ok()) return kNever;
  double seconds = 0;
  for (const OperationTimes& times : TimeProgram(*program)) seconds = std::max(seconds, times.end);
  return seconds;
}

// Keeps a schedule if it is the fastest.
void BestMaker::Keep(const Schedule& schedule) {
  const double seconds = SecondsOf(schedule);
  if (seconds >= seconds_) return;
  fastest_ = schedule;
  seconds_ = seconds;
}

// Plans addresses for a paged schedule, and keeps it with them if that is the fastest.
absl::StatusOr<schedule::FixedSchedule> BestMaker::KeepPlanned(const Schedule& late,
                                                               schedule::PlanEffort effort) {
  const std::int64_t memory = memory_bytes();
  effort.most_seconds = SecondsLeft(until_);
  effort.whole_seconds = 0;
  effort.stop = options_.stop;
  effort.workspaces = schedule::WorkspaceLife::kWholeRun;
  absl::StatusOr<schedule::FixedSchedule> fixed = schedule::FixAddressesWithin(
      effort, {&graph_, 1}, late, request_.placing.alignment, {&memory, 1});
  if (!fixed.ok()) return fixed;
  least_height_ = std::min(least_height_, fixed->height);
  if (fixed->fits) Keep(fixed->schedule);
  return fixed;
}

// Keeps a paged schedule with addresses if that is the fastest. Returns the bytes that its plan
// needs.
std::int64_t BestMaker::HeightOfTaken(const Schedule& schedule,
                                      const schedule::PlanEffort& effort) {
  const absl::StatusOr<Schedule> late = TakeMemoryLate(graph_, schedule, machine_);
  if (!late.ok()) return kNoHeight;
  const absl::StatusOr<schedule::FixedSchedule> fixed = KeepPlanned(*late, effort);
  return fixed.ok() ? fixed->height : kNoHeight;
}

void BestMaker::KnowConcurrent(const Schedule& schedule) {
  constexpr double kPlanShare = 0.1;  // of the work
  Know(schedule);
  if (WantsPages()) return;
  until_ = 1;
  HeightOfTaken(InPages(schedule),
                {.work_seconds = WorkSeconds() * kPlanShare, .seed = options_.seed});
}

// Keeps a schedule from before if it is valid and the fastest.
void BestMaker::TakeKnown(Schedule schedule) {
  if (schedule.fingerprint != GraphFingerprint(graph_)) return;
  if (schedule.memory == ScheduleMemory::kPool || schedule.alignment != request_.placing.alignment)
    return;
  if (!options_.recomputes && RunsTasksAgain(graph_, schedule)) return;
  schedule.rounds.clear();  // an iteration at once may be one round
  if (!ValidateSchedule(graph_, schedule).ok()) return;
  schedule.policy = NameOfTaken(schedule.policy);
  if (WantsPages()) return Keep(InPages(std::move(schedule)));
  const std::int64_t memory = memory_bytes();
  const bool is_fixed = schedule.memory == ScheduleMemory::kFixed;
  if (is_fixed && ValidateAddresses({&graph_, 1}, schedule, {&memory, 1}).ok()) Keep(schedule);
}

// Takes the schedule of another policy. Returns whether a faster one is possible.
bool BestMaker::TakeOther(const Schedule& schedule) {
  // A schedule's waits change with its addresses.
  constexpr double kFaster = 0.98;
  Schedule own = schedule;
  transfers::CompressCopies(options_.densities, own);
  own.policy = NameOfTaken(schedule.policy);
  if (WantsPages()) {
    Keep(own);
    return !IsFastest();
  }
  if (IsFastest()) return false;
  if (SecondsOf(own) * kFaster >= seconds_) return true;
  if (HeightOfTaken(own, {.work_seconds = plan_seconds_, .seed = options_.seed}) > memory_bytes()) {
    late_.push_back(std::move(own));
  }
  return !IsFastest();
}

// Searches longer for the addresses of other policies' schedules.
void BestMaker::TakeLate() {
  if (late_.empty()) return;
  until_ = 1;
  plan_seconds_ = WorkSeconds() * kLatePlanShare / static_cast<double>(late_.size());
  for (const Schedule& schedule : std::exchange(late_, {})) TakeOther(schedule);
}

// moDNN has addresses of its own, and also sends weights that are at home on the host.
void BestMaker::TakeModnn() {
  ScheduleRequest own = request_;
  own.options = ModnnOptions();
  own.memory = ScheduleMemory::kFixed;
  absl::StatusOr<Schedule> schedule = MakeModnn("modnn", graph_, own);
  if (schedule.ok()) TakeKnown(*std::move(schedule));
}

// Other policies come first, because they take little time. Each kind of search has the same share
// whether others run or not. So parts and tasks that run again never make a schedule slower.
absl::StatusOr<Schedule> BestMaker::Make() {
  bound_ = BoundOf(graph_, machine_, options_.recomputes, options_.densities);
  const auto take = [&](const Schedule& schedule) { return TakeOther(schedule); };
  for (const Schedule& schedule : options_.known) TakeKnown(schedule);
  TakeModnn();
  MakeSending(graph_, request_, take);
  SearchOwn();
  if (!IsFastest() && options_.recomputes) MakeRunningAgain(graph_, request_, take);
  TakeLate();
  if (seconds_ == kNever) return HasNoPlan();
  return std::move(fastest_);
}

std::vector<BestMaker::SearchKind> BestMaker::SearchKinds() const {
  // Pages need no plan, so the first search of each kind has all the work.
  if (WantsPages()) {
    return {
        {.shares = {.first = 0.36, .most_tries = 2, .until = 0.6}},
        {.in_parts = true, .shares = {.first = 0.12, .most_tries = 2, .until = 0.7}},
        {.recomputes = true, .shares = {.first = 0.3, .again = 0.25, .most_tries = 2, .until = 1}},
        {.recomputes = true,
         .in_parts = true,
         .shares = {.first = 0.15, .most_tries = 2, .until = 1}}};
  }
  // Single parts that stay lie in the way of addresses: repairs need the work more.
  return {{.shares = {.first = 0.12, .again = 0.03, .plan = 0.02, .most_tries = 10, .until = 0.6}},
          {.in_parts = true,
           .shares = {.first = 0.04, .again = 0.01, .plan = 0.01, .most_tries = 1, .until = 0.7}},
          {.recomputes = true,
           .shares = {.first = 0.2, .again = 0.03, .plan = 0.01, .most_tries = 5, .until = 1}},
          {.recomputes = true,
           .in_parts = true,
           .shares = {.first = 0.1, .again = 0.02, .plan = 0.01, .most_tries = 3, .until = 1}}};
}

void BestMaker::SearchOwn() {
  for (const SearchKind& kind : SearchKinds()) {
    if (IsFastest()) return;
    if (kind.recomputes && !options_.recomputes) continue;
    if (kind.in_parts && options_.part_bytes == 0) continue;
    search_.recomputes = kind.recomputes;
    search_.problem.part_bytes = kind.in_parts ? options_.part_bytes : 0;
    until_ = kind.shares.until;
    if (WantsPages()) {
      TakeInPages(kind.shares);
      continue;
    }
    TakeWithAddresses(kind.shares);
    if (!kind.recomputes && !kind.in_parts) {
      TakeRepaired({.first = 0.04, .again = 0.01, .plan = 0.02, .all = 0.36, .until = 0.7});
    }
  }
}

// Searches without plans of addresses. Then the tasks that run again may change together with the
// data that is sent. These changes fill the memory, which leaves little room for plans of
// addresses.
void BestMaker::TakeInPages(const Shares& shares) {
  int tries = 0;
  Iteration iteration = SearchWithoutReserve(shares, tries);
  if (iteration.seconds == kNever) return;
  Keep(StepsOf(iteration));
  if (shares.again == 0 || IsFastest() || SecondsLeft(until_) == 0) return;
  search_.runs_again = std::move(iteration.runs_again);
  search_.changes_together = true;
  iteration = Search(shares.again);
  search_.changes_together = false;
  if (iteration.seconds < kNever) Keep(StepsOf(iteration));
}

// Searches with more and more memory in reserve until a plan of addresses fits, and then with less
// again.
void BestMaker::TakeWithAddresses(const Shares& shares) {
  // So near to the time without a reserve, repairs come nearer still in less work than tries.
  constexpr double kNear = 1.05;
  constexpr int kTriesBeforeRepairs = 5;
  OwnTries tries(memory_bytes());
  Iteration iteration = SearchWithoutReserve(shares, tries.done);
  if (iteration.seconds == kNever) return;
  tries.fastest = iteration.seconds;
  if (search_.problem.part_bytes == 0 && !search_.recomputes) first_ = iteration;
  while (TakeIteration(shares, std::move(iteration), tries) && ++tries.done < shares.most_tries) {
    const bool is_near = seconds_ < tries.fastest * kNear;
    if (is_near && tries.done >= kTriesBeforeRepairs) break;
    search_.problem.reserve_bytes = tries.cuts.next();
    iteration = Search(shares.again);
  }
}

// Returns an iteration that may use the whole memory. If no data that may leave makes room, data
// leaves for short times too. Counts a search that found none.
Iteration BestMaker::SearchWithoutReserve(const Shares& shares, int& tries) {
  search_.runs_again.clear();
  search_.problem.reserve_bytes = 0;
  search_.problem.least_absence_runs = transfers::kLeastAbsenceRuns;
  Iteration iteration = Search(shares.first);
  if (iteration.seconds < kNever || ++tries >= shares.most_tries) return iteration;
  search_.problem.least_absence_runs = 1;
  return Search(shares.first);
}

// Plans an iteration's addresses, and keeps it if it is the fastest. Returns whether one with
// another reserve may be faster.
bool BestMaker::TakeIteration(const Shares& shares, Iteration iteration, OwnTries& tries) {
  constexpr double kFaster = 0.99;
  constexpr double kEnough = 1.001;  // of the time without a reserve
  if (IsFastest()) return false;
  // Only a smaller reserve makes the schedule faster.
  if (iteration.seconds == kNever || iteration.seconds * kFaster >= seconds_) {
    const bool has_reserve = search_.problem.reserve_bytes > 0;
    if (has_reserve) tries.cuts.Suffices();
    return has_reserve;
  }
  const std::int64_t height = HeightOfTaken(
      StepsOf(iteration), {.work_seconds = WorkSeconds() * shares.plan,
                           .seed = options_.seed + static_cast<std::uint64_t>(tries.done)});
  if (height > memory_bytes()) {
    tries.cuts.Exceeds(height);
  } else if (seconds_ <= tries.fastest * kEnough) {
    return false;
  } else {
    tries.cuts.Suffices();
  }
  search_.runs_again = std::move(iteration.runs_again);
  AllowShortAbsences(shares, tries);
  return SecondsLeft(until_) > 0 && tries.cuts.next() <= memory_bytes();
}

// Lets data leave for short times too if half of the tries found no plan that fits.
void BestMaker::AllowShortAbsences(const Shares& shares, const OwnTries& tries) {
  const bool is_late =
      tries.done + 1 >= shares.most_tries / 2 || tries.cuts.next() > memory_bytes() / 2;
  if (is_late && seconds_ == kNever) search_.problem.least_absence_runs = 1;
}

// Returns the first iteration, or one in which data at home on the device stays, if that takes
// hardly longer. Plans without its many moves are lower.
Iteration BestMaker::FirstToRepair(double share) {
  constexpr double kHardlyLonger = 1.005;
  search_.problem.reserve_bytes = 0;
  search_.problem.sends_data_at_home = false;
  Iteration staying = Search(share);
  search_.problem.sends_data_at_home = true;
  return staying.seconds < first_.seconds * kHardlyLonger ? staying : first_;
}

// Repairs schedules without a reserve if their plans do not fit, while the data that is away is
// improved further. Each plan goes on from the one before it.
void BestMaker::TakeRepaired(const RepairShares& shares) {
  if (first_.runs.empty() || IsFastest()) return;
  until_ = shares.until;
  Iteration base = FirstToRepair(shares.first);
  schedule::StayOffsets near;
  schedule::PlanEffort effort = {.work_seconds = WorkSeconds() * shares.plan,
                                 .seed = options_.seed};
  repair_seconds_ = WorkSeconds() * shares.all;
  while (repair_seconds_ > 0 && SecondsLeft(until_) > 0) {
    Iteration iteration = base;
    if (Repair(effort, iteration, near)) Tighten(effort, std::move(iteration), near);
    if (IsFastest()) return;
    const double seconds = WorkSeconds() * shares.again;
    repair_seconds_ -= seconds;
    WorkBudget sending(SendingWork(seconds), SecondsLeft(until_), options_.stop);
    transfers::SendOtherData(
        ++effort.seed, [&](std::size_t done) { return sending.Take(done); }, base);
  }
}

// Plans an iteration from the plan near by, and keeps it if that is the fastest. Returns the late
// schedule with its plan. Takes from the work of repairs.
absl::StatusOr<BestMaker::Planned> BestMaker::PlanNear(schedule::PlanEffort effort,
                                                       const Iteration& iteration,
                                                       const schedule::StayOffsets& near) {
  constexpr double kSecondsOfAStep = 5e-6;  // of work beside the plan
  absl::StatusOr<Schedule> late = TakeMemoryLate(graph_, StepsOf(iteration), machine_);
  if (!late.ok()) return late.status();
  repair_seconds_ -=
      effort.work_seconds + kSecondsOfAStep * static_cast<double>(late->steps.size());
  if (!near.empty()) effort.near = &near;
  absl::StatusOr<schedule::FixedSchedule> plan = KeepPlanned(*late, effort);
  if (!plan.ok()) return plan.status();
  return Planned{*std::move(late), *std::move(plan)};
}

// Lets more and more data leave until the plan of an iteration fits. Returns false where it has
// none that is faster than the fastest schedule so far.
bool BestMaker::Repair(const schedule::PlanEffort& effort, Iteration& iteration,
                       schedule::StayOffsets& near) {
  constexpr int kMostPlans = 6;
  for (int plans = 0; plans < kMostPlans && iteration.seconds < seconds_; ++plans) {
    if (repair_seconds_ <= 0) return false;
    const bool is_first = near.empty();
    absl::StatusOr<Planned> planned = PlanNear(effort, iteration, near);
    if (!planned.ok()) return false;
    near = std::move(planned->plan.offsets);
    if (planned->plan.fits) return true;
    if (is_first) continue;  // plans that go on from this one leave fewer bytes out
    const auto go_on = [&](std::size_t work) {
      repair_seconds_ -= static_cast<double>(work) / SendingWork(1);
      return repair_seconds_ > 0 && SecondsLeft(until_) > 0;
    };
    if (!SendHighStays(planned->late, planned->plan.high_stays, go_on, iteration)) return false;
    transfers::FindTimes(iteration);
  }
  return false;
}

// Changes the data that is away at random, of an iteration with a plan that fits. Keeps each change
// that makes it faster if another plan fits.
void BestMaker::Tighten(schedule::PlanEffort effort, Iteration iteration,
                        schedule::StayOffsets near) {
  constexpr double kFaster = 0.9999;
  constexpr double kShortPlan = 0.1;  // of the work of other plans
  constexpr int kMostFails = 20;      // one after the other
  constexpr int kMostChanges = 2000;
  effort.work_seconds *= kShortPlan;
  for (int fails = 0; fails < kMostFails && repair_seconds_ > 0 && SecondsLeft(until_) > 0;) {
    Iteration next = iteration;
    if (IsFastest() || !transfers::ChangeForLess(next.made.problem, iteration.seconds * kFaster,
                                                 kMostChanges, ++effort.seed, next.is_away)) {
      return;
    }
    transfers::FindTimes(next);
    absl::StatusOr<Planned> planned = PlanNear(effort, next, near);
    const bool fits = planned.ok() && planned->plan.fits;
    fails = fits ? 0 : fails + 1;
    if (!fits) continue;
    iteration = std::move(next);
    near = std::move(planned->plan.offsets);
  }
}

}  // namespace tidepool::offload_policies
