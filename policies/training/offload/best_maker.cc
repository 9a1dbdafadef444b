// SPDX-License-Identifier: Apache-2.0
#include "policies/training/offload/best_maker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/arithmetic.h"
#include "lib/base/text/sizes.h"
#include "lib/training/schedule/schedule_planning.h"
#include "lib/training/simulate/makespan.h"
#include "policies/training/offload/in_pages.h"
#include "policies/training/offload/late_memory.h"
#include "policies/training/offload/memory_cuts.h"
#include "policies/training/offload/modnn_policy.h"
#include "policies/training/offload/option_names.h"
#include "policies/training/offload/other_schedules.h"
#include "policies/training/offload/send_high_stays.h"
#include "policies/training/transfers/faster_algorithms.h"
#include "policies/training/transfers/graph_steps.h"
#include "policies/training/transfers/rerun_search.h"
#include "tidepool/schedule/lower_bound.h"
#include "tidepool/schedule/program.h"

namespace tidepool::offload_policies {
namespace {

using transfers::Iteration;

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
    bytes += RoundUp(data.bytes, granule);
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
                     const BestOptions& options, budget::Budget& budget)
    : graph_(graph),
      request_(request),
      options_(options),
      budget_(budget),
      machine_(request.machine) {
  machine_.devices.resize(1);
  search_ = {.problem = {.memory_bytes = memory_bytes(),
                         .granule = request.placing.alignment,
                         .rates = transfers::RatesOfDevice(machine_, 0),
                         .densities = options.densities},
             .recomputes = options.recomputes,
             .seed = options.seed};
}

// Returns the work that a search for data that is sent does in these seconds. A set of transfers is
// tried several times as fast as an iteration with other tasks.
double BestMaker::SendingWork(double seconds) const {
  const double faster = search_.recomputes ? 5 : 10;
  return transfers::WorkOf(seconds) / 2 * faster;
}

// Takes some seconds of work, as far as they are left.
double BestMaker::Take(double work) {
  const double taken = std::clamp(work_left_, 0.0, work);
  work_left_ -= work;
  return taken;
}

Iteration BestMaker::SearchWith(const Algorithms& algorithms, double work) {
  budget::Budget choosing(budget_, transfers::WorkOf(work) / 2, budget_.SecondsLeft() / 2);
  budget::Budget sending(budget_, SendingWork(work));
  return transfers::SearchIteration(
      graph_, algorithms, search_, [&](std::size_t done) { return choosing.Take(done); },
      [&](std::size_t done) { return sending.Take(done); });
}

// Changes the data that is sent in an iteration, and the tasks that run again.
void BestMaker::Improve(double work, Iteration& iteration) {
  const bool has_whole_data = search_.problem.part_bytes == 0;
  if (search_.recomputes && has_whole_data) {
    work /= 2;
    budget::Budget changing(budget_, transfers::WorkOf(work));
    transfers::ChangeReruns(
        graph_, search_.problem, search_.seed,
        [&](std::size_t done) { return changing.Take(done); }, iteration);
  }
  budget::Budget sending(budget_, SendingWork(work));
  transfers::SendOtherData(
      search_.seed, [&](std::size_t done) { return sending.Take(done); }, iteration);
  transfers::UseFasterAlgorithms(graph_, search_.problem, iteration);
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
  return simulate::MakespanOf(*program);
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
  effort.most_seconds = budget_.SecondsLeft();
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
  HeightOfTaken(InPages(schedule),
                {.work_seconds = options_.work_seconds * kPlanShare, .seed = options_.seed});
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
  plan_seconds_ = options_.work_seconds * kLatePlanShare / static_cast<double>(late_.size());
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

// Other policies come first, because they take little time.
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

std::vector<BestMaker::Kind> BestMaker::Kinds() const {
  // Single parts that stay lie in the way of addresses: whole data needs the work more.
  constexpr Shares kInParts = {.lead = 0.04, .tries = 0.02};
  std::vector<Kind> kinds(4);
  kinds[0].shares = {.lead = 0.12, .tries = 0.04, .repair = 0.16};
  kinds[1].shares = kinds[3].shares = kInParts;
  kinds[2].shares = {.lead = 0.28, .tries = 0.08, .repair = 0.2};
  kinds[1].in_parts = kinds[3].in_parts = true;
  kinds[2].recomputes = kinds[3].recomputes = true;
  return kinds;
}

// Searches in rounds, each with twice the work of the one before it. Limits only end the search: a
// longer one finds all that a shorter one does, and a slower machine gets as far as it comes. Less
// work than that of the first round is divided among the kinds too.
void BestMaker::SearchOwn() {
  constexpr double kFirstWork = 2.0 / 15;  // four rounds have the work of the default limit
  std::vector<Kind> kinds = Kinds();
  work_left_ = options_.work_seconds;
  const double first = std::min(kFirstWork, work_left_);
  for (double work = first; !HasEnded() && !IsFastest(); work *= 2) {
    SearchRound(work, kinds);
    ++search_.seed;
  }
}

// Each kind has the same share whether others are asked for or not. So parts and tasks that run
// again never make a schedule slower. A much slower kind leaves its share to the next.
void BestMaker::SearchRound(double work, std::vector<Kind>& kinds) {
  constexpr double kMuchSlower = 1.1;
  double left = 0;
  for (Kind& kind : kinds) {
    const double share = kind.shares.Sum();
    const bool is_asked =
        (!kind.recomputes || options_.recomputes) && (!kind.in_parts || options_.part_bytes > 0);
    if (!is_asked || HasEnded() || IsFastest()) {
      Take(work * share);
    } else if (!kind.choices[0].empty() && kind.lead.seconds > seconds_ * kMuchSlower) {
      left += share;
    } else {
      Advance(kind, work * (1 + std::exchange(left, 0) / share));
    }
  }
  Take(work * left);
}

void BestMaker::Advance(Kind& kind, double work) {
  search_.recomputes = kind.recomputes;
  search_.problem.part_bytes = kind.in_parts ? options_.part_bytes : 0;
  search_.problem.reserve_bytes = 0;
  if (WantsPages()) {
    ImproveLead(kind, Take(work * kind.shares.Sum()));
    if (kind.lead.seconds < kNever) Keep(StepsOf(kind.lead));
    return;
  }
  ImproveLead(kind, Take(work * kind.shares.lead));
  TakeWithReserve(kind, Take(work * kind.shares.tries));
  if (seconds_ == kNever && !kind.sends_for_short_times) {
    // Data that leaves for a few tasks may leave room for addresses.
    kind.lead = Iteration();
    FindLead(kind, true, work * kind.shares.lead / 4);
    TakeWithReserve(kind, work * kind.shares.tries);
  }
  TakeRepaired(kind, Take(work * kind.shares.repair));
}

// Searches from the start for an iteration that may use the whole memory, and goes on from the
// fastest one so far. Data leaves for short times too where the graph is short, or nothing else
// makes room.
void BestMaker::ImproveLead(Kind& kind, double work) {
  constexpr std::size_t kShortGraph = 512;
  const bool is_short = graph_.tasks.size() <= kShortGraph;
  FindLead(kind, false, is_short ? work / 4 : work / 2);
  if (is_short || kind.lead.seconds == kNever) FindLead(kind, true, work / 4);
  search_.problem.sends_for_short_times = kind.sends_for_short_times;
  if (kind.lead.seconds < kNever) Improve(work / 2, kind.lead);
}

void BestMaker::FindLead(Kind& kind, bool sends_for_short_times, double work) {
  search_.problem.sends_for_short_times = sends_for_short_times;
  std::vector<Algorithms>& choices = kind.choices[sends_for_short_times ? 1 : 0];
  if (choices.empty()) choices = PromisingAlgorithms(graph_, search_);
  for (const Algorithms& algorithms : choices) {
    Iteration next = SearchWith(algorithms, work / static_cast<double>(choices.size()));
    if (next.seconds >= kind.lead.seconds) continue;
    kind.lead = std::move(next);
    kind.sends_for_short_times = sends_for_short_times;
  }
}

// Returns the lead with some bytes in reserve.
Iteration BestMaker::LeadWithReserve(const Kind& kind, std::int64_t bytes, double work) {
  Iteration iteration = kind.lead;
  if (bytes == 0) return iteration;
  search_.problem.reserve_bytes = bytes;
  transfers::Refit(graph_, search_.problem, iteration);
  if (iteration.seconds < kNever) Improve(work, iteration);
  search_.problem.reserve_bytes = 0;
  return iteration;
}

// Takes the lead with more and more memory in reserve until a plan of addresses fits, and then with
// less again.
void BestMaker::TakeWithReserve(Kind& kind, double work) {
  constexpr int kLeastTries = 2;
  constexpr int kMostTries = 12;  // until one fits
  constexpr double kOfATry = 0.1;
  constexpr double kFaster = 0.999;
  kind.planned = Iteration();
  if (kind.lead.seconds * kFaster >= seconds_) return;
  MemoryCuts cuts(memory_bytes(), kind.reserve_bytes);
  plan_work_ = work;
  const auto goes_on = [&](int tries) {
    if (IsFastest() || budget_.HasEnded() || tries == kMostTries) return false;
    if (cuts.next() > memory_bytes()) return false;
    return tries < kLeastTries || kind.planned.runs.empty() || plan_work_ > 0;
  };
  for (int tries = 0; goes_on(tries); ++tries) {
    Iteration iteration = LeadWithReserve(kind, cuts.next(), work * kOfATry);
    plan_work_ -= work * kOfATry;
    const bool may_be_faster = iteration.seconds * kFaster < seconds_;
    if (may_be_faster && !PlanWithReserve(kind, work * kOfATry, std::move(iteration), cuts))
      continue;
    if (cuts.next() == 0) return;
    cuts.Suffices();  // only a smaller reserve makes it faster
  }
}

// Plans the addresses of an iteration with the reserve of the next cut. Returns whether they fit.
bool BestMaker::PlanWithReserve(Kind& kind, double work, Iteration iteration, MemoryCuts& cuts) {
  // A plan in less work is hardly better than one without a search.
  constexpr double kLeastWork = 0.005;
  absl::StatusOr<Planned> planned =
      PlanNear({.work_seconds = std::max(work, kLeastWork), .seed = search_.seed}, iteration, {});
  const bool fits = planned.ok() && planned->plan.fits;
  if (!fits) cuts.Exceeds(planned.ok() ? planned->plan.height : 2 * memory_bytes());
  kind.reserve_bytes = std::min(cuts.next(), memory_bytes() / 2);
  if (!fits || iteration.seconds >= kind.planned.seconds) return fits;
  kind.planned = std::move(iteration);
  kind.planned_offsets = std::move(planned->plan.offsets);
  return true;
}

// Repairs the lead if its plan does not fit. Each plan goes on from the one before it, also from
// that of the round before. Then improves it, or that with a reserve, as far as plans fit.
void BestMaker::TakeRepaired(Kind& kind, double work) {
  constexpr double kOfAPlan = 1.0 / 16;
  constexpr double kFaster = 0.998;
  if (kind.lead.seconds >= seconds_ || IsFastest()) return;
  plan_work_ = work;
  const schedule::PlanEffort effort = {.work_seconds = work * kOfAPlan, .seed = search_.seed};
  if (kind.lead.seconds < kind.repaired_from * kFaster || kind.repaired.seconds >= seconds_) {
    kind.repaired = kind.lead;
    kind.repaired_from = kind.lead.seconds;
    kind.repaired_offsets.clear();
  }
  if (Repair(effort, kind.repaired, kind.repaired_offsets)) {
    Tighten(effort, kind.repaired, kind.repaired_offsets);
  } else if (!kind.planned.runs.empty()) {
    Iteration iteration = kind.planned;
    transfers::Refit(graph_, search_.problem, iteration);
    Tighten(effort, std::move(iteration), kind.planned_offsets);
  }
}

// Plans an iteration from the plan near by, and keeps it if that is the fastest. Returns the late
// schedule with its plan. Takes from the work of repairs.
absl::StatusOr<BestMaker::Planned> BestMaker::PlanNear(schedule::PlanEffort effort,
                                                       const Iteration& iteration,
                                                       const schedule::StayOffsets& near) {
  constexpr double kSecondsOfAStep = 2e-6;  // of work beside the plan
  absl::StatusOr<Schedule> late = TakeMemoryLate(graph_, StepsOf(iteration), machine_);
  if (!late.ok()) return late.status();
  plan_work_ -= effort.work_seconds + kSecondsOfAStep * static_cast<double>(late->steps.size());
  if (!near.empty()) effort.near = &near;
  absl::StatusOr<schedule::FixedSchedule> plan = KeepPlanned(*late, effort);
  if (!plan.ok()) return plan.status();
  return Planned{*std::move(late), *std::move(plan)};
}

// Lets more and more data leave until the plan of an iteration fits. Returns false where it has
// none that is faster than the fastest schedule so far.
bool BestMaker::Repair(const schedule::PlanEffort& effort, Iteration& iteration,
                       schedule::StayOffsets& near) {
  constexpr int kMostPlans = 12;
  for (int plans = 0; plans < kMostPlans && iteration.seconds < seconds_; ++plans) {
    if (plan_work_ <= 0) return false;
    const bool is_first = near.empty();
    absl::StatusOr<Planned> planned = PlanNear(effort, iteration, near);
    if (!planned.ok()) return false;
    near = std::move(planned->plan.offsets);
    if (planned->plan.fits) return true;
    if (is_first) continue;  // plans that go on from this one leave fewer bytes out
    const auto go_on = [&](std::size_t work) {
      plan_work_ -= static_cast<double>(work) / SendingWork(1);
      return plan_work_ > 0 && !budget_.HasEnded();
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
  for (int fails = 0; fails < kMostFails && plan_work_ > 0 && !budget_.HasEnded();) {
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
